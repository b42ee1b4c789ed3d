"""Shares of updates of two unlike workers that train one model by adaptive-hogbatch, and what their
speeds predict: each alone, at the same time, with the batches that the adaptive run has ended at.

    python3 -m bench.hogbatch.prediction --data w8a.gz,like-real-sim         on an idle machine
"""

import concurrent.futures
import pathlib
import tempfile

from bench import listed, parser_of, run_main, table, warn_if_busy
from bench.hogbatch import loss, training

LIMITS = [("1-64", "128-2048"), ("1-16", "16-512")]
KINDS = ("live", "replica")


def train(rows, rate, seconds, batches):
    """What the workers of those limits did, by their kinds, with updates a second."""
    algorithm = "adaptive-hogbatch" if len(batches) > 1 else "hogbatch"
    words = [
        *(*loss.RECIPE, "--data", f"libsvm:{rows.path}", "--lr", rate),
        *(("--loss", "sigmoid") if rows.sets else ()),
        *loss.worker_options(algorithm, threads=1, **batches),
    ]
    record = training.train(words, seconds, seconds + loss.START_LIMIT, loss.WINDOW_ROWS)
    return {
        worker["kind"]: {"batch": worker["batch"], "speed": worker["updates"] / record["train_seconds"]}
        for worker in record["workers"]
    }


def share(workers):
    return workers["live"]["speed"] / sum(worker["speed"] for worker in workers.values())


def row(data, rows, args, limits):
    together = train(rows, args.rate, args.seconds, dict(zip(KINDS, limits)))
    batches = {kind: together[kind]["batch"] for kind in KINDS}
    with concurrent.futures.ThreadPoolExecutor(len(KINDS)) as pool:
        alone = {
            kind: pool.submit(train, rows, args.rate, args.seconds, {kind: batches[kind]}) for kind in KINDS
        }
        alone = {kind: run.result()[kind] for kind, run in alone.items()}
    return [
        *(data, " and ".join(limits), " and ".join(str(batches[kind]) for kind in KINDS)),
        *(" and ".join(f"{alone[kind]['speed']:.1f}" for kind in KINDS), f"{share(alone):.2f}"),
        f"{share(together):.2f}",
    ]


def main():
    parser = parser_of("bench.hogbatch.prediction", __doc__)
    add = parser.add_argument
    add("--data", type=listed(str), required=True, metavar="D,D", help="files in LIBSVM's format, sets' names")
    add("--seconds", type=float, default=15, help="of training, of each run (default 15)")
    add("--rate", type=float, default=0.1, help="default 0.1")
    args = parser.parse_args()
    warn_if_busy()
    found = []
    for data in args.data:
        with tempfile.TemporaryDirectory() as folder:
            rows = loss.Rows.of(data, folder)
            found += [row(pathlib.Path(data).name, rows, args, limits) for limits in LIMITS]
    header = ["data", "limits of batches", "last batches", "updates/s alone", "share predicted", "share"]
    print(table(header, found), end="")


if __name__ == "__main__":
    run_main(main)
