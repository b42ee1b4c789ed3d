"""Loss against training time on rows of numbers: unlike workers that train one model, either of
them alone, learners that are alike, PyTorch and TensorFlow.

    python3 -m bench.hogbatch.loss --data w8a.gz,like-delicious         on an idle machine
    python3 -m bench.hogbatch.loss --data w8a.gz --peers-python PATH
    python3 -m bench.hogbatch.loss --table --results docs/hogbatch.jsonl --plots docs

All sides read the same rows, and try the same rates with seed 1, each for as many seconds; a step of
b times 16 rows has sqrt(b) times the rate. The best batch and rate of a side is then tried with the
other seeds. Every finished run is a line of the results, so the command may be stopped at any time;
given again, it goes on where it was.
"""

import bz2
import dataclasses
import gzip
import math
import os
import pathlib
import statistics
import sys
import tempfile
import typing

from bench import CROSSBOW, ROOT, Failed, listed, log, parser_of, run_main, table
from bench import warn_if_busy
from bench.hogbatch import training
from bench.hogbatch.curves import best_of, least_of, plot, rows_a_second, seconds_text, text_of
from bench.hogbatch.shares import plot_shares
from bench.learning.results import Results, group
from bench.processes import answer_of

MODEL = "mlp"
RECIPE = ("--model", MODEL, "--lr-schedule", "fixed", "--weight-decay", 0, "--warmup", 0)
RATE_ROWS = 16  # of a step that has the rate; one of b times as many rows has sqrt(b) times the rate
LOGGED_ROWS = 1000  # between two losses of a run, at least if batches are small
WINDOW_ROWS = 10_000  # over which losses are averaged, at least
START_LIMIT = 120  # seconds until a run trains, and after it has ended
TEST_SHARE = 10  # every so many rows of a file one is for the test
SPARSE_FEATURES = 4096  # from so many on peers keep rows and gradients sparse
PEER_BATCHES = (16, 32, 64, 128, 512)
SMA = ("--sync", "sma", "--learners", "2", "--momentum", "0", "--lr-scaling", "sqrt")


class Side(typing.NamedTuple):
    """Sides that share a name differ in the batches, and count as one at their best."""

    name: str
    batch: int  # the smallest
    batches: str  # all
    options: tuple = ()  # of Crossbow
    system: str | None = None  # a peer's

    def __str__(self):
        return f"{self.name}, batch {self.batches}"


def worker_options(algorithm, threads, **batches):
    """Of workers by their kinds, with so many threads each."""
    workers = [f"{kind}:threads={threads},batch={batch}" for kind, batch in batches.items()]
    return ("--sync", algorithm, *(word for w in workers for word in ("--worker", w)))


def both(algorithm, live, replica):
    options = worker_options(algorithm, threads=1, live=live, replica=replica)
    return Side(algorithm, int(live.partition("-")[0]), f"{live} and {replica}", options)


def alone(name, kind, batch):
    options = worker_options("hogbatch", threads=2, **{kind: batch})
    return Side(name, batch, str(batch), options)


SIDES = [
    both("adaptive-hogbatch", "1-64", "128-2048"),
    both("adaptive-hogbatch", "1-16", "16-512"),
    both("adaptive-hogbatch", "1-16", "16-256"),
    both("adaptive-hogbatch", "1-16", "16-32"),
    both("adaptive-hogbatch", "1-32", "32-64"),
    both("adaptive-hogbatch", "16-64", "64-512"),
    both("hogbatch", "1-64", "128-2048"),
    *(alone("live workers alone", "live", batch) for batch in (1, 16, 64)),
    alone("a replica alone", "replica", 512),
    *(Side("sma", batch, str(batch), (*SMA, "--batch", str(batch))) for batch in (16, 64)),
    *(Side("PyTorch", batch, str(batch), system="torch") for batch in PEER_BATCHES),
    *(Side("TensorFlow", batch, str(batch), system="tensorflow") for batch in PEER_BATCHES),
]
NAMES = {str(side): side.name for side in SIDES}


@dataclasses.dataclass(frozen=True)
class Job:
    data: str
    side: str
    rate: float
    seed: int
    seconds: float
    model: str = MODEL

    key = dataclasses.asdict


@dataclasses.dataclass(frozen=True)
class Rows:
    """FILE and FILE.t."""

    path: pathlib.Path
    features: int
    classes: int
    sets: bool  # a row has a set of classes

    @staticmethod
    def of(data, folder):
        """Of a file every tenth row is for the test; a set that Crossbow draws has test rows."""
        path = pathlib.Path(folder) / "rows"
        test = path.with_name("rows.t")
        if pathlib.Path(data).exists():
            openers = {".gz": gzip.open, ".bz2": bz2.open}
            with openers.get(pathlib.Path(data).suffix, open)(data, "rt", encoding="ascii") as file:
                lines = [line for line in file if line.strip()]
            train_lines = [line for i, line in enumerate(lines) if i % TEST_SHARE]
            path.write_text("".join(train_lines), encoding="ascii")
            test.write_text("".join(lines[::TEST_SHARE]), encoding="ascii")
        else:
            answer_of([CROSSBOW, "convert", data, f"libsvm:{path}", "--json"])
            lines = (path.read_text() + test.read_text()).splitlines()
        labels = [line.rstrip("\n").partition(" ")[0] for line in lines]
        labels = ["" if ":" in label else label for label in labels]
        classes = {label for of_row in labels for label in of_row.split(",") if label}
        features = max(int(line.split()[-1].partition(":")[0]) for line in lines if ":" in line)
        return Rows(path, features, len(classes), any("," in label for label in labels))


def measure(args, job, side, rows):
    if side.system:
        command = [args.peers_python, "-m", "bench.hogbatch.loss_peer", side.system, rows.path]
        shape = ["--features", rows.features, "--classes", rows.classes]
        rate = job.rate * math.sqrt(side.batch / RATE_ROWS)
        options = ["--batch", side.batch, "--rate", rate, "--seed", job.seed]
        of_rows = ["--sets"] if rows.sets else []
        of_rows += ["--sparse"] if rows.features >= SPARSE_FEATURES else []
        ending = ["--seconds", job.seconds, "--window", WINDOW_ROWS]
        return answer_of([*command, *shape, *of_rows, *options, *ending])
    words = [
        *(*RECIPE, "--data", f"libsvm:{rows.path}", "--lr", job.rate, "--seed", job.seed),
        *("--log-every", max(1, LOGGED_ROWS // side.batch)),
        *(("--loss", "sigmoid") if rows.sets else ()),
        *side.options,
    ]
    return training.train(words, job.seconds, job.seconds + START_LIMIT, WINDOW_ROWS)


def result_of(args, job, side, rows, results):
    """The number of failures."""
    if results.find(job):
        return 0
    load, failures = round(os.getloadavg()[0], 2), 0
    try:
        record = measure(args, job, side, rows)
    except Failed as failure:
        record = {"history": [], "failure": str(failure)}
        failures = "the loss became" not in str(failure)
    results.add(job, {**record, "load": load})
    log(f"{job.data}, {job.side}, rate {job.rate:g}, seed {job.seed}: {text_of(record)}")
    return failures


def best_sides(records):
    """By name the runs of the best batch and rate."""
    by_name = group(records, lambda job: NAMES[job["side"]])
    return {
        name: best_of(by_name[name]) for name in dict.fromkeys(NAMES.values()) if name in by_name
    }


def run(args, results):
    failures = 0
    there = [side for side in SIDES if args.peers_python or not side.system]
    asked = (side for side in there if side.name in args.sides)
    sides = [side for side in asked if side.batches in args.batches]
    for data in args.data:
        name = pathlib.Path(data).name
        with tempfile.TemporaryDirectory() as folder:
            rows = Rows.of(data, folder)

            def jobs_of(side, rates, seed):
                return [Job(name, str(side), rate, seed, args.seconds) for rate in rates]

            first = [(side, job) for side in sides for job in jobs_of(side, args.rates, 1)]
            failures += sum(result_of(args, job, side, rows, results) for side, job in first)
            best = best_sides([results.find(job) for _, job in first])
            told = [record["job"] for (record, *_) in best.values() if record["history"]]
            rates = {job["side"]: [job["rate"]] for job in told}
            for seed in range(2, args.seeds + 1):
                for side in sides:
                    for job in jobs_of(side, rates.get(str(side), []), seed):
                        failures += result_of(args, job, side, rows, results)
    return failures


def tables(results):
    """Of each set, the batches and rates that ran with all seeds."""
    parts = []
    peers = {str(side) for side in SIDES if side.system}
    for data, of_data in group(results.lines.values(), lambda job: job["data"]).items():
        tried = group(of_data, lambda job: (job["side"], job["rate"], job["seconds"]))
        tried = {key: of for key, of in tried.items() if any(r["history"] for r in of)}
        seeds = max(map(len, tried.values()), default=0)
        tried = {key: of for key, of in tried.items() if len(of) == seeds}
        least = {key: statistics.median(map(least_of, of)) for key, of in tried.items()}
        of_peers = [loss for (side, *_), loss in least.items() if side in peers]
        goal = min(of_peers or least.values(), default=math.inf)
        rows = [
            [
                *(key[0], f"{key[1]:g}", f"{least[key]:.4f}", seconds_text(of, goal)),
                f"{statistics.median(rows_a_second(r) for r in of if r['history']):,.0f}",
            ]
            for key, of in tried.items()
        ]
        of_whom = "of the best peer" if of_peers else "of the best side"
        header = ["side", "rate", "least training loss", f"s to {goal:.4f}, {of_whom}", "rows/s"]
        parts.append(f"## {data}: {MODEL}, {seeds} seed(s)\n\n{table(header, rows)}")
    return parts


def main():
    parser = parser_of("bench.hogbatch.loss", __doc__)
    add = parser.add_argument
    add("--data", type=listed(str), metavar="D,D", help="files in LIBSVM's format, sets' names")
    add("--seconds", type=float, default=60, help="of training, of each run (default 60)")
    add("--rates", type=listed(float), default=[0.1, 0.3], metavar="R,R")
    add("--seeds", type=int, default=3, metavar="N", help="seeds 1 to N (default 3)")
    names = list(dict.fromkeys(NAMES.values()))
    add("--sides", type=listed(str), default=names, metavar="S,S", help=f"of {', '.join(names)}")
    sizes = list(dict.fromkeys(side.batches for side in SIDES))
    add("--batches", type=listed(str), default=sizes, metavar="B,B", help=f"of {', '.join(sizes)}")
    add("--peers-python", metavar="PATH", help="a Python with torch, tensorflow, scikit-learn")
    path = ROOT / "build/hogbatch/loss.jsonl"
    add("--results", type=pathlib.Path, default=path, metavar="FILE")
    add("--table", action="store_true", help="only print what the results have")
    add("--plots", type=pathlib.Path, metavar="DIR", help="pictures: losses, and workers' shares")
    args = parser.parse_args()
    results, failures = Results(args.results), 0
    if not args.table:
        if not args.data:
            parser.error("name sets of rows with --data")
        for name in set(args.sides) - set(names):
            parser.error(f"--sides {name}: choose from {', '.join(names)}")
        for batches in set(args.batches) - set(sizes):
            parser.error(f"--batches {batches}: choose from {', '.join(sizes)}")
        warn_if_busy()
        failures = run(args, results)
    print("\n".join(tables(results)) if results.lines else "No results yet.")
    if args.plots and results.lines:
        plot(results.lines.values(), args.plots, NAMES.get)
        plot_shares(results.lines.values(), args.plots, NAMES.get)
    if failures:
        sys.exit(f"{failures} runs failed, as said above; delete their lines to try them again")


if __name__ == "__main__":
    run_main(main)
