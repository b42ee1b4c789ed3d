"""Shares of updates of two unlike workers that train one model by adaptive-hogbatch, and what their
speeds predict: each alone, at the same time, with the batches that the adaptive run has ended at.

    python3 -m bench.hogbatch.prediction --data w8a.gz,like-real-sim         on an idle machine

Every measurement is a line of the results, and is not made again.
"""

import concurrent.futures
import dataclasses
import pathlib
import statistics
import tempfile

from bench import ROOT, listed, log, parser_of, run_main, table, warn_if_busy
from bench.hogbatch import loss, training
from bench.learning.results import Results, group

LIMITS = [("1-64", "128-2048"), ("1-16", "16-512")]
KINDS = ("live", "replica")


@dataclasses.dataclass(frozen=True)
class Job:
    data: str
    limits: str
    rate: float
    seed: int
    seconds: float

    key = dataclasses.asdict


def train(rows, job, batches):
    """What the workers of those limits did, by their kinds, with updates a second."""
    algorithm = "adaptive-hogbatch" if len(batches) > 1 else "hogbatch"
    words = [
        *(*loss.RECIPE, "--data", f"libsvm:{rows.path}", "--lr", job.rate, "--seed", job.seed),
        *(("--loss", "sigmoid") if rows.sets else ()),
        *loss.worker_options(algorithm, threads=1, **batches),
    ]
    record = training.train(words, job.seconds, job.seconds + loss.START_LIMIT, loss.WINDOW_ROWS)
    return {
        worker["kind"]: {
            "batch": worker["batch"],
            "speed": round(worker["updates"] / record["train_seconds"], 2),
            "busy_fraction": round(worker["busy_fraction"], 4),
        }
        for worker in record["workers"]
    }


def measure(rows, job, limits):
    together = train(rows, job, dict(zip(KINDS, limits)))
    batches = {kind: together[kind]["batch"] for kind in KINDS}
    with concurrent.futures.ThreadPoolExecutor(len(KINDS)) as pool:
        alone = {kind: pool.submit(train, rows, job, {kind: batches[kind]}) for kind in KINDS}
        alone = {kind: run.result()[kind] for kind, run in alone.items()}
    return {"together": together, "alone": alone}


def share(workers):
    return workers["live"]["speed"] / sum(worker["speed"] for worker in workers.values())


def shares_text(records, whose):
    shares = sorted(share(record[whose]) for record in records)
    return f"{statistics.median(shares):.2f} ({shares[0]:.2f}–{shares[-1]:.2f})"


def row(records):
    job, first = records[0]["job"], records[0]
    batches = " and ".join(str(first["together"][kind]["batch"]) for kind in KINDS)
    speeds = [statistics.median(r["alone"][kind]["speed"] for r in records) for kind in KINDS]
    busy = min(r["together"][kind]["busy_fraction"] for r in records for kind in KINDS)
    apart = max(abs(share(r["together"]) - share(r["alone"])) for r in records)
    return [
        *(job["data"], job["limits"], batches, " and ".join(f"{speed:.1f}" for speed in speeds)),
        *(shares_text(records, "alone"), shares_text(records, "together"), f"{apart:.2f}"),
        *(f"{busy:.0%}", len(records)),
    ]


HEADER = [
    *("data", "limits of batches", "last batches, seed 1", "updates/s alone", "share predicted"),
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
