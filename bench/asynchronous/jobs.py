"""One training run of Crossbow with asynchronous nodes or with learners, and how it is run."""

import json

from bench import CROSSBOW
from bench.learning import runner, tasks

ASYNCHRONOUS = [
    *("hogwild", "downpour", "async-easgd", "async-eamsgd", "gossip-pull", "gossip-push"),
    *("elastic-gossip", "ad-psgd", "sgp"),
]
SYNCHRONOUS = ["ssgd", "sma", "local-sgd"]
FIELDS = (*runner.FIELDS, *runner.OPTIONAL_FIELDS, "virtual_time")  # kept of each epoch


def job_of(args, sync, learners, options, target=None):
    """With the first seed, at Crossbow's own rate; its stage is the subcommand, its task the net and
    the data set."""
    return tasks.Job(
        *(f"{args.model} on {args.data.partition(':')[0]}", args.command, "crossbow", ""),
        *(tasks.SMALLEST_BATCH, None, args.epochs, target),
        learners=learners,
        sync=sync,
        options=options,
    )


class Runner(runner.Runner):
    """Each learner has one thread. The record of a run that ended by itself also holds what
    Crossbow says of the run as a whole."""

    def run(self, job, hopeless):
        self.said = {}
        return {**super().run(job, hopeless), **self.said}

    def threads(self, job):
        return 1

    def command(self, job, epochs, folder):
        command = [
            *(CROSSBOW, "train", "--json", "--model", self.args.model, "--data", self.args.data),
            *("--sync", job.sync, "--learners", job.learners, "--threads-per-learner", 1),
            *("--batch", job.batch, "--epochs", epochs, "--seed", job.seed, *job.options),
            *(("--target-accuracy", job.target) if job.target is not None else ()),
            *(("--lr", job.rate) if job.rate is not None else ()),
            *("--out", folder / "run"),
        ]
        return [str(word) for word in command]

    def watch(self, job, command, folder, hopeless):
        outcome, history = super().watch(job, command, folder, hopeless)
        if outcome is None:
            said = json.loads((folder / "epochs.jsonl").read_text(encoding="utf-8"))
            history = [{name: epoch.get(name) for name in FIELDS} for epoch in said["history"]]
            self.said = summary(said, history)
        return outcome, history


def summary(said, history):
    """`virtual_time` is that of the epoch that reached the target, in steps of an ordinary node."""
    reached = (e["virtual_time"] for e in history if e["epoch"] == said["epochs_to_target"])
    fields = ("epochs_to_target", "virtual_seconds", "final_test_accuracy", "train_seconds")
    return {
        **{name: said.get(name) for name in fields},
        "virtual_time": next(reached, None),
        "distance": history[-1]["distance"],
        "nodes": said.get("nodes"),
    }
