"""Shares of updates of two unlike workers that train one model by adaptive-hogbatch, and what speeds
by batch predict: those of the same workers by hogbatch, whose steps keep their size, with the sizes
around the mean ones of the adaptive run.

    python3 -m bench.hogbatch.prediction --data w8a.gz,like-real-sim         on an idle machine

Every measurement is a line of the results, and is not made again.
"""

import dataclasses
import itertools
import pathlib
import statistics
import tempfile

from bench import ROOT, listed, log, parser_of, run_main, table, warn_if_busy
from bench.hogbatch import loss, training
from bench.learning.results import Results, group

LIMITS = [("1-64", "128-2048"), ("1-16", "16-512")]
KINDS = ("live", "replica")
LITTLE = 0.1


@dataclasses.dataclass(frozen=True)
class Job:
    data: str
    limits: str
    rate: float
    seed: int
    seconds: float

    key = dataclasses.asdict


def train(rows, job, algorithm, batches):
    """What the workers did, by their kinds, with updates a second."""
    words = [
        *(*loss.RECIPE, "--data", f"libsvm:{rows.path}", "--lr", job.rate, "--seed", job.seed),
        *(("--loss", "sigmoid") if rows.sets else ()),
        *loss.worker_options(algorithm, threads=1, **batches),
    ]
    record = training.train(words, job.seconds, job.seconds + loss.START_LIMIT, loss.WINDOW_ROWS)
    return {
        worker["kind"]: {
            "batch": round(worker["rows"] / worker["updates"], 2),
            "speed": round(worker["updates"] / record["train_seconds"], 2),
            "busy_fraction": round(worker["busy_fraction"], 4),
        }
        for worker in record["workers"]
    }


def parts_of(mean, limits):
    """The two sizes around the mean, and which part of the steps would have each; little is none."""
    least, most = map(int, limits.split("-"))
    lower = least
    while 2 * lower < most and 2 * lower <= mean:
        lower *= 2
    part = min(1, max(0, mean / lower - 1))
    if not LITTLE <= part <= 1 - LITTLE:
        part = round(part)
    return {size: p for size, p in ((lower, 1 - part), (2 * lower, part)) if p > 0}


def measure(rows, job, limits):
    together = train(rows, job, "adaptive-hogbatch", dict(zip(KINDS, limits)))
    live, replica = (
        parts_of(together[kind]["batch"], limit) for kind, limit in zip(KINDS, limits)
    )
    fixed = [
        {
            "part": live[sizes[0]] * replica[sizes[1]],
            **train(rows, job, "hogbatch", dict(zip(KINDS, sizes))),
        }
        for sizes in itertools.product(live, replica)
    ]
    return {"together": together, "fixed": fixed}


def predicted(record):
    """Updates a second: seconds a step are the mean over the sizes."""
    return {
        kind: {"speed": 1 / sum(run["part"] / run[kind]["speed"] for run in record["fixed"])}
        for kind in KINDS
    }


def share(workers):
    return workers["live"]["speed"] / sum(worker["speed"] for worker in workers.values())


def measured(record):
    return record["together"]


def shares_text(records, of):
    shares = sorted(share(of(record)) for record in records)
    return f"{statistics.median(shares):.2f} ({shares[0]:.2f}–{shares[-1]:.2f})"


def row(records):
    job = records[0]["job"]
    middle = {
        kind: (
            statistics.median(r["together"][kind]["batch"] for r in records),
            statistics.median(predicted(r)[kind]["speed"] for r in records),
        )
        for kind in KINDS
    }
    busy = min(r["together"][kind]["busy_fraction"] for r in records for kind in KINDS)
    apart = max(abs(share(measured(r)) - share(predicted(r))) for r in records)
    return [
        *(job["data"], job["limits"]),
        " and ".join(f"{batch:.0f}" for batch, _ in middle.values()),
        " and ".join(f"{speed:.0f}" for _, speed in middle.values()),
        *(shares_text(records, predicted), shares_text(records, measured), f"{apart:.2f}"),
        *(f"{busy:.0%}", len(records)),
    ]


HEADER = [
    *("data", "limits of batches", "mean batches", "updates/s predicted", "share predicted"),
    *("share", "at most apart", "busy, at least", "seeds"),
]


def main():
    parser = parser_of("bench.hogbatch.prediction", __doc__)
    add = parser.add_argument
    data = {"metavar": "D,D", "help": "files in LIBSVM's format, sets' names"}
    add("--data", type=listed(str), required=True, **data)
    add("--seconds", type=float, default=15, help="of training, of each run (default 15)")
    add("--rate", type=float, default=0.1, help="default 0.1")
    add("--seeds", type=int, default=1, metavar="N", help="seeds 1 to N (default 1)")
    path = ROOT / "build/hogbatch/prediction.jsonl"
    add("--results", type=pathlib.Path, default=path, metavar="FILE")
    args = parser.parse_args()
    warn_if_busy()
    results, found = Results(args.results), []
    for data in args.data:
        name = pathlib.Path(data).name
        with tempfile.TemporaryDirectory() as folder:
            rows = loss.Rows.of(data, folder)
            for limits in LIMITS:
                for seed in range(1, args.seeds + 1):
                    job = Job(name, " and ".join(limits), args.rate, seed, args.seconds)
                    record = results.find(job) or results.add(job, measure(rows, job, limits))
                    found.append(record)
                    log(f"{name}, {job.limits}, seed {seed}: {share(record['together']):.2f}")
    by_limits = group(found, lambda job: (job["data"], job["limits"]))
    print(table(HEADER, map(row, by_limits.values())), end="")


if __name__ == "__main__":
    run_main(main)
