"""Runs one job as a process of its own and records what came of it.

Every side writes a JSON line per epoch to a file, which is watched here: `metrics.jsonl` of
Crossbow's run folder, the standard output of a peer.
"""

import ctypes
import datetime
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from bench import CROSSBOW, PEERS_PYTHON, Failed, last_line, log, nets
from bench.learning import tasks

POLL_SECONDS = 0.2
FIELDS = ("epoch", "seconds", "test_accuracy", "train_loss")
OPTIONAL_FIELDS = ("noise_scale", "distance", "learners")


def end_with_parent():
    """In the child: no training goes on behind the back of a driver that was killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Runner:
    """Not yet run jobs are run, for others the record is returned."""

    def __init__(self, args, results):
        self.args, self.results = args, results
        self.failures = 0

    def do(self, job, hopeless=lambda history: False):
        """The job's record, or None if it failed, which is reported. A run whose history so far is
        hopeless is cut."""
        found = self.results.find(job)
        if found:
            return found
        log(f"{datetime.datetime.now():%H:%M:%S} {job}")
        try:
            record = self.results.add(job, self.run(job, hopeless))
        except Failed as failure:
            self.failures += 1
            log(f"  failed: {failure}")
            return None
        accuracies = [f"{100 * epoch['test_accuracy']:.2f}" for epoch in record["history"]]
        log(f"  {record['outcome']}: {' '.join(accuracies)}")
        return record

    def run(self, job, hopeless):
        load, start = os.getloadavg()[0], time.time()
        epochs = job.stop_after or job.epochs
        with tempfile.TemporaryDirectory(prefix="crossbow-learning-") as folder:
            folder = pathlib.Path(folder)
            command = self.command(job, epochs, folder)
            outcome, history = self.watch(job, command, folder, hopeless)
        if outcome is None:
            reached = job.target is not None and history[-1]["test_accuracy"] >= job.target
            whole = len(history) == job.epochs
            outcome = "reached" if reached else "unreached" if whole else "cut"
        return {
            "outcome": outcome,
            "history": history,
            "threads": self.threads(job),
            "nice": os.nice(0),
            "load": round(load, 2),
            "started": datetime.datetime.fromtimestamp(start).isoformat(timespec="seconds"),
            "wall_seconds": round(time.time() - start, 1),
        }

    def threads(self, job):
        """Of each learner. Where only epochs count, one: threads that wait for each other lose far
        more than their share on a busy machine."""
        if job.learners == "auto" or job.stage == "names":
            return "auto"
        timed = job.stage in tasks.TIMED_STAGES
        return max(1, len(self.args.cpus) // job.learners) if timed else 1

    def command(self, job, epochs, folder):
        task = tasks.TASKS[job.task]
        shared = [
            *("--model", task.model, "--batch", job.batch, "--lr", job.rate),
            *("--seed", job.seed, "--epochs", epochs, *job.options),
            *(("--target-accuracy", job.target) if job.target is not None else ()),
        ]
        if job.stage == "names":
            command = [
                *(CROSSBOW, "train", "--json", "--data", task.data, "--seed", job.seed),
                *("--learners", job.learners, "--sync", job.sync, "--out", folder / "run"),
            ]
        elif job.side == "crossbow":
            command = [
                *(CROSSBOW, "train", "--json", *shared),
                *("--data", f"{task.data}:{self.args.data}", *task.options),
                *("--learners", job.learners, "--sync", job.sync),
                *(("--retune",) if job.learners == "auto" else ()),
                *(() if job.learners == 1 or job.stage in tasks.RULED_STAGES else ("--lr-scaling", "none")),
                *("--threads-per-learner", self.threads(job)),
                *("--lr-schedule", "fixed", "--weight-decay", nets.WEIGHT_DECAY),
                *(() if "--momentum" in job.options else ("--momentum", nets.MOMENTUM)),
                *("--out", folder / "run"),
            ]
        else:
            learner = task.torch_learner if job.side == "pytorch" else "jax_learner"
            command = [
                *(PEERS_PYTHON, "-m", f"bench.learning.{learner}", *shared, "--data", self.args.data),
                *("--variant", job.variant, "--threads", self.threads(job)),
            ]
        return [str(word) for word in command]

    def watch(self, job, command, folder, hopeless):
        """(outcome or None, history); the process has ended."""
        lines = folder / ("run/metrics.jsonl" if job.side == "crossbow" else "epochs.jsonl")
        with open(folder / "epochs.jsonl", "w") as out, open(folder / "errors", "w+") as errors:
            try:
                process = subprocess.Popen(
                    command, stdout=out, stderr=errors, preexec_fn=end_with_parent
                )
            except OSError as error:
                raise Failed(f"{command[0]}: {error.strerror}")
            try:
                history = []
                while process.poll() is None:
                    time.sleep(POLL_SECONDS)
                    history = read_history(lines)
                    if tasks.diverged(history):
                        return "diverged", history
                    if history and hopeless(history):
                        return "cut", history
            finally:
                process.kill()
                process.wait()
            errors.seek(0)
            said = errors.read()
        if process.returncode != 0 and "loss became" not in said:
            raise Failed(f"exit status {process.returncode}: {last_line(said)}")
        history = read_history(lines)
        if process.returncode != 0:
            return "diverged", history
        if not history:
            raise Failed("it ended without a single epoch")
        return None, history


def read_history(path):
    """The epochs finished so far; the last line may be half written."""
    if not path.exists():
        return []
    history = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        record = json.loads(line) if line.endswith("\n") else {}
        if "epoch" in record:
            optional = {name: record[name] for name in OPTIONAL_FIELDS if name in record}
            history.append({name: record[name] for name in FIELDS} | optional)
    return history
