"""Where averaging beats one large batch: k learners of batch 16, by algorithm, beside one learner of
batch 16·k, each at its best of three rates; accuracy after a fixed number of epochs."""

import dataclasses

from bench.learning import tasks
from bench.learning.results import final_accuracy, select
from bench.learning.tuning import lags, order

LEARNERS = [16, 32, 64, 128]
ALGORITHMS = ["sma", "sma-paper", "local-sgd", "slowmo", "ssgd"]
# One learner of the large batch, plain and with its mean over time; as --sync of crossbow train.
LARGE = {"large": "none", "large-mean": "sma"}
RATE = 0.01  # of one learner


def learners_of(job):
    """The k that the job stands for."""
    return job["batch"] * job["learners"] // tasks.SMALLEST_BATCH


def job_of(task, way, k, power):
    large = way in LARGE
    batch = tasks.SMALLEST_BATCH * (k if large else 1)
    return tasks.Job(
        *(task.name, "large", "crossbow", way if large else "", batch),
        *(float(f"{RATE * k**power:.3g}"), task.large_epochs, None),
        learners=1 if large else k,
        sync=LARGE.get(way, way),
        options=task.large_options,
    )


def best_rate(records):
    """Of the first seed; None if no run has come to its end."""
    first = [r for r in select(records, seed=1) if r["outcome"] not in ("cut", "diverged")]
    return max(first, key=final_accuracy)["job"]["rate"] if first else None


def tried(runner, jobs):
    """The jobs' records. A rate that is far behind another after half of the epochs is given up."""
    records = []
    for job in jobs:
        others = [r["history"] for r in records if r["outcome"] != "diverged"]
        record = runner.do(job, lambda history: lags(history, others, job.epochs // 2))
        if record:
            records.append(record)
    return records


def run(runner, args):
    """All with the first seed, then the other seeds at the best rates."""
    task = tasks.TASKS[args.task]
    powers = (*task.large_powers, *args.powers)
    cells = [(way, k) for k in args.learners for way in args.algorithms]
    chosen = []
    for way, k in cells:
        records = tried(runner, [job_of(task, way, k, power) for power in order(sorted(powers))])
        if rate := best_rate(records):
            chosen.append(dataclasses.replace(job_of(task, way, k, 1), rate=rate))
    for seed in range(2, args.seeds + 1):
        for job in chosen:
            runner.do(dataclasses.replace(job, seed=seed))
