"""Loss against training time on rows of numbers: a CPU's threads and the GPU train one model,
beside either of them alone. One run after the other has the whole machine."""

import os
import typing

from bench import Failed, log
from bench.gpu import ours
from bench.gpu.jobs import Job
from bench.hogbatch.curves import best_of, plot, text_of
from bench.hogbatch.loss import LOGGED_ROWS, MODEL, RECIPE
from bench.hogbatch.training import train
from bench.learning.results import select

THREADS = max(1, len(os.sched_getaffinity(0)) - 1)  # of the live worker; the replica has one
LIVE = ("--worker", f"live:threads={THREADS},batch=1-64")
BOTH = (*LIVE, "--worker", "replica:device=cuda,batch=512-8192")
ON_GPU = ("--device", "cuda")
HOGBATCH = ("--sync", "hogbatch")
SMA = ("--sync", "sma", "--learners", "8", "--momentum", "0", "--lr-scaling", "sqrt")
WINDOW_ROWS = 20_000  # over which losses are averaged, at least
START_LIMIT = 60  # seconds until it trains, for which plans are chosen, and after it has ended


class Side(typing.NamedTuple):
    options: tuple
    rows: int  # of what counts as a step between two losses: a smallest batch for each learner
    alone: bool = False  # one processor


def on_gpu(batch):
    return Side((*ON_GPU, *HOGBATCH, "--worker", f"replica:batch={batch}"), 512, alone=True)


# The same processors together, and alone with batches of theirs.
MAIN = {
    "adaptive-hogbatch, CPU and GPU": Side(("--sync", "adaptive-hogbatch", *BOTH), THREADS + 1),
    "GPU alone, batch 8192": on_gpu("512-8192"),
    "CPU alone, batch 64": Side(
        (*HOGBATCH, "--worker", f"live:threads={THREADS},batch=64"), THREADS * 64, alone=True
    ),
    "GPU alone, batch 512": on_gpu("512"),
    "CPU alone, batch 1": Side((*HOGBATCH, *LIVE), THREADS, alone=True),
}
OTHERS = {
    "hogbatch, CPU and GPU": Side((*HOGBATCH, *BOTH), THREADS + 1),
    "GPU, 8 sma learners, batch 16": Side((*ON_GPU, *SMA, "--batch", "16"), 8 * 16),
}
ALL = {**MAIN, **OTHERS}
# The likelier first, of sets for which they are not RATES; a loss of like-delicious is a mean over
# its classes.
RATES = (0.1, 0.3)
RATES_OF = {"like-real-sim": (0.03, 0.1), "like-delicious": (3, 30)}
SETS = ("like-covtype", "w8a", "like-delicious", "like-w8a", "like-real-sim")
LOSSES = {"like-delicious": ("--loss", "sigmoid")}  # a row has a set of classes


def job_of(args, data, side, rate, seed):
    shared = {"seed": seed, "seconds": args.train_seconds, "model": MODEL}
    return Job("hogbatch", {"data": data, "side": side, "rate": rate, **shared})


def next_jobs(args, results):
    """What matters most first: of the main sides all rates, and further seeds at the better."""
    sets = [data for data in SETS if data != "w8a" or args.w8a]
    for sides in (MAIN, OTHERS):
        cases = [(data, side) for data in sets for side in sides]
        first = {}
        for turn in (0, 1):
            for data, side in cases:
                rate = RATES_OF.get(data, RATES)[turn]
                job = job_of(args, data, side, rate, 1)
                first.setdefault((data, side), []).append(job)
                yield job
        for seed in range(2, args.seeds + 1):
            for (data, side), jobs in first.items():
                found = [record for record in map(results.find, jobs) if record]
                if any(record["history"] for record in found):
                    rate = best_of(found)[0]["job"]["rate"]
                    yield job_of(args, data, side, rate, seed)


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
    for job in next_jobs(args, results):
        if results.find(job):
            continue
        seconds = job.fields["seconds"]
        limit = seconds + START_LIMIT
        if left() < limit:
            whole = False
            break
        try:
            options = options_of(args, job)
            record = train(options, seconds, limit, WINDOW_ROWS, ours.environment())
        except Failed as failure:
            record = {"history": [], "failure": str(failure)}
        results.add(job, record)
        told = ", ".join(str(job.fields[name]) for name in ("data", "side", "rate", "seed"))
        log(f"  {told}: {text_of(record)}")
    records = [r for r in select(results.lines.values(), stage="hogbatch") if r["history"]]
    if records:
        plot(records, args.out)
    return whole
