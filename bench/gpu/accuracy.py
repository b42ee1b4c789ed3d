"""resnet-32 on CIFAR-10 to 88 % test accuracy: Crossbow's learners beside PyTorch, in bf16. Both
sides have the same recipe, and a rate that falls by a cosine over the same epochs."""

import dataclasses
import json
import pathlib
import re
import sys
import tempfile
import time

from bench import CROSSBOW, Failed, log, nets
from bench.gpu import ours
from bench.gpu.jobs import Job
from bench.learning.results import best_accuracy, by_merit, seconds_to_target
from bench.learning.runner import FIELDS
from bench.processes import finished

MODEL, TARGET, PRECISION = "resnet-32", 0.88, "bf16"
LONGEST = 240  # seconds of a run
WAITING = re.compile(r"waiting +([\d.]+) % of the training")


@dataclasses.dataclass(frozen=True)
class Contestant:
    side: str
    batch: int  # of each learner
    rates: tuple  # the likelier first
    learners: int = 1
    variant: str = ""


CONTESTANTS = [
    Contestant("crossbow", 16, (0.05, 0.1), learners=8),
    Contestant("pytorch", 64, (0.1, 0.05), variant="captured compile"),
    Contestant("pytorch", 256, (0.2, 0.4), variant="captured compile"),
    Contestant("pytorch", 16, (0.05, 0.1), variant="captured compile"),
]


def job_of(args, contestant, rate, seed):
    fields = dataclasses.asdict(contestant)
    del fields["rates"]
    shared = {"model": MODEL, "precision": PRECISION, "target": TARGET, "epochs": args.epochs}
    return Job("accuracy", {**fields, **shared, "rate": rate, "seed": seed})


def contestants_of(args):
    return [c for c in CONTESTANTS if c.side in ("crossbow", *args.peers)]


def next_jobs(args, results):
    """What matters most first: the likelier rates, the others, and further seeds at the better."""
    contestants = contestants_of(args)
    for turn in (0, 1):
        for contestant in contestants:
            yield job_of(args, contestant, contestant.rates[turn], 1)
    for seed in range(2, args.seeds + 1):
        for contestant in contestants:
            first = [results.find(job_of(args, contestant, r, 1)) for r in contestant.rates]
            found = [record for record in first if record and record["history"]]
            if found:
                best = min(found, key=lambda r: (seconds_to_target(r), *by_merit(r)))
                yield job_of(args, contestant, best["job"]["rate"], seed)


def command_of(args, job, folder):
    fields = job.fields
    shared = [
        *("--model", MODEL, "--batch", fields["batch"], "--lr", fields["rate"]),
        *("--epochs", fields["epochs"], "--seed", fields["seed"], "--target-accuracy", TARGET),
    ]
    if fields["side"] == "pytorch":
        learner = (sys.executable, "-m", "bench.gpu.pytorch_learner")
        return [*learner, *shared, "--data", args.cifar, "--variant", fields["variant"]]
    return [
        *(CROSSBOW, "train", "--json", *shared, "--data", f"cifar10:{args.cifar}"),
        *("--device", "cuda", "--learners", fields["learners"], "--sync", "sma"),
        *("--precision", PRECISION, "--lr-schedule", "cosine", "--pad", 4, "--mirror"),
        *("--momentum", nets.MOMENTUM, "--weight-decay", nets.WEIGHT_DECAY),
        *("--out", folder / "run"),
    ]


def history_of(job, said):
    if job.fields["side"] == "crossbow":
        epochs = json.loads(said)["history"]
    else:
        epochs = [json.loads(line) for line in said.splitlines()]
    return [{name: epoch[name] for name in FIELDS} for epoch in epochs]


def run(args, job):
    with tempfile.TemporaryDirectory() as folder:
        command = command_of(args, job, pathlib.Path(folder))
        environment = ours.environment() if job.fields["side"] == "crossbow" else None
        start = time.monotonic()
        done = finished(command, LONGEST, environment)
        wall = time.monotonic() - start
    history = history_of(job, done.stdout)
    waiting = WAITING.search(done.stderr)
    return {
        "outcome": "reached" if history[-1]["test_accuracy"] >= TARGET else "unreached",
        "history": history,
        "wall_seconds": round(wall, 1),
        "waiting_percent": float(waiting.group(1)) if waiting else None,  # for data
    }


def stage(args, results, left):
    if not args.cifar:
        log("  no --cifar, no accuracy")
        return True
    for job in next_jobs(args, results):
        if results.find(job):
            continue
        if left() < LONGEST:
            return False
        try:
            record = run(args, job)
        except Failed as failure:
            record = {"outcome": "failed", "history": [], "failure": str(failure)}
        results.add(job, record)
        fields = {k: job.fields[k] for k in ("side", "learners", "batch", "rate", "seed")}
        seconds = sum(epoch["seconds"] for epoch in record["history"])
        said = f"{best_accuracy(record):.2%} in {seconds:.1f} s"
        log(f"  {' '.join(map(str, fields.values()))}: {record.get('failure', said)}")
    return True
