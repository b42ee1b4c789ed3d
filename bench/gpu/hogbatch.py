"""Loss against training time on rows of numbers: a CPU's threads and the GPU train one model,
beside either of them alone. One run after the other has the whole machine."""

import os
import typing

from bench import Failed, log
from bench.gpu import ours
from bench.gpu.jobs import Job
from bench.hogbatch.curves import plot, text_of
from bench.hogbatch.loss import LOGGED_ROWS, MODEL, RECIPE
from bench.hogbatch.training import train
from bench.learning.results import select
from bench.peers.sides import TooLate

THREADS = max(1, len(os.sched_getaffinity(0)) - 1)  # of the live worker; the replica has one
LIVE = ("--worker", f"live:threads={THREADS},batch=1-64")
BOTH = (*LIVE, "--worker", "replica:device=cuda,batch=512-8192")
ON_GPU = ("--device", "cuda")
HOGBATCH = ("--sync", "hogbatch")
SMA = ("--sync", "sma", "--learners", "8", "--momentum", "0")
WINDOW_ROWS = 20_000  # over which losses are averaged, at least
START_LIMIT = 60  # seconds until it trains, for which plans are chosen, and after it has ended
NEEDED = 12  # seconds that must be left beside those of the training


class Side(typing.NamedTuple):
    options: tuple
    rows: int  # of what counts as a step between two losses: a smallest batch for each learner
    rates: tuple  # the likelier first, from docs/hogbatch.md
    alone: bool = False  # one processor


MAIN = {
    "adaptive-hogbatch, CPU and GPU": Side(
        ("--sync", "adaptive-hogbatch", *BOTH), THREADS + 1, (0.3, 0.1)
    ),
    "GPU alone, batch 8192": Side(
        (*ON_GPU, *HOGBATCH, "--worker", "replica:batch=512-8192"), 512, (0.1, 0.3), alone=True
    ),
    "CPU alone, batch 1": Side((*HOGBATCH, *LIVE), THREADS, (0.1, 0.3), alone=True),
}
SIDES = {
    **MAIN,
    "hogbatch, CPU and GPU": Side((*HOGBATCH, *BOTH), THREADS + 1, (0.1, 0.3)),
    "GPU, 8 sma learners, batch 16": Side((*ON_GPU, *SMA, "--batch", "16"), 8 * 16, (0.3, 0.1)),
}
# The same processors alone, with batches that may suit them better.
OTHERS = {
    "GPU alone, batch 512": Side(
        (*ON_GPU, *HOGBATCH, "--worker", "replica:batch=512"), 512, (0.1, 0.3), alone=True
    ),
    "CPU alone, batch 64": Side(
        (*HOGBATCH, "--worker", f"live:threads={THREADS},batch=64"),
        THREADS * 64,
        (0.3, 0.1),
        alone=True,
    ),
}
ALL = {**SIDES, **OTHERS}
FIRST, REST = ("like-covtype", "w8a"), ("like-real-sim", "like-delicious")
LOSSES = {"like-delicious": ("--loss", "sigmoid")}  # a row has a set of classes


def order(args):
    """All jobs, what matters most first."""

    def jobs(sets, sides, turn):
        sets = [data for data in sets if data != "w8a" or args.w8a]
        cases = [(data, side, ALL[side].rates[turn]) for data in sets for side in sides]
        names = ("data", "side", "rate")
        shared = {"seed": 1, "seconds": args.train_seconds, "model": MODEL}
        return [Job("hogbatch", {**dict(zip(names, case)), **shared}) for case in cases]

    return [
        *(*jobs(FIRST, MAIN, 0), *jobs(FIRST, MAIN, 1), *jobs(REST, MAIN, 0)),
        *(*jobs(FIRST, SIDES, 0), *jobs(FIRST, OTHERS, 0), *jobs(FIRST, SIDES, 1)),
        *(*jobs(REST, SIDES, 0), *jobs(REST, SIDES, 1)),
        *(*jobs(FIRST, OTHERS, 1), *jobs(REST, OTHERS, 0), *jobs(REST, OTHERS, 1)),
    ]


def options_of(args, job):
    data, side = job.fields["data"], ALL[job.fields["side"]]
    return [
        *(*RECIPE, "--data", f"libsvm:{args.w8a}" if data == "w8a" else data),
        *("--lr", job.fields["rate"], "--seed", job.fields["seed"]),
        *("--log-every", max(1, LOGGED_ROWS // side.rows)),
        *(*LOSSES.get(data, ()), *side.options),
    ]


def stage(args, results, left):
    whole = True
    for job in order(args):
        if results.find(job):
            continue
        seconds = job.fields["seconds"]
        if left() < seconds + NEEDED:
            whole = False
            break
        limit = min(seconds + START_LIMIT, left())
        try:
            options = options_of(args, job)
            record = train(options, seconds, limit, WINDOW_ROWS, ours.environment())
        except Failed as failure:
            if isinstance(failure, TooLate) and limit < seconds + START_LIMIT:
                whole = False
                break
            record = {"history": [], "failure": str(failure)}
        results.add(job, record)
        log(
            f"  {job.fields['data']}, {job.fields['side']}, {job.fields['rate']}: {text_of(record)}"
        )
    records = [r for r in select(results.lines.values(), stage="hogbatch") if r["history"]]
    if records:
        plot(records, args.out)
    return whole
