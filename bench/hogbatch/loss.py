"""Loss against training time on rows of numbers: unlike workers that train one model, either of
them alone, learners that are alike, PyTorch and TensorFlow.

    python3 -m bench.hogbatch.loss --data w8a.gz,like-delicious         on an idle machine
    python3 -m bench.hogbatch.loss --data w8a.gz --peers-python PATH
    python3 -m bench.hogbatch.loss --table --results docs/hogbatch.jsonl --plots docs

All sides read the same training and test rows, and try the same rates with seed 1; the best of them
is then tried with the other seeds. Every finished run is a line of the results, so the command may
be stopped at any time; given again, it goes on where it was.
"""

import bz2
import dataclasses
import gzip
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from bench import CROSSBOW, ROOT, Failed, last_line, listed, log, parser_of, table
from bench import warn_if_busy
from bench.hogbatch.curves import best_of, curve, duration, plot, seconds_text, text_of
from bench.hogbatch.shares import plot_shares
from bench.learning.results import Results, group

MODEL = "mlp"
RECIPE = ("--model", MODEL, "--lr-schedule", "fixed", "--weight-decay", 0, "--warmup", 0)
TEST_SHARE = 10  # every so many rows of a file one is for the test
SINGLE, BATCHED = "live:threads=2,batch=1", "replica:threads=2,batch=512"
BOTH = ("--worker", "live:threads=1,batch=1-64", "--worker", "replica:threads=1,batch=128-2048")
SMA = ("--sync", "sma", "--learners", "2", "--momentum", "0", "--batch")
SIDES = {
    "adaptive-hogbatch": ("--sync", "adaptive-hogbatch", *BOTH),
    "hogbatch": ("--sync", "hogbatch", *BOTH),
    "live workers alone": ("--sync", "hogbatch", "--worker", SINGLE),
    "a replica alone": ("--sync", "hogbatch", "--worker", BATCHED),
    "sma, batch 16": (*SMA, "16"),
}
PEERS = {
    f"{name}, batch {batch}": (system, batch)
    for name, system in (("PyTorch", "torch"), ("TensorFlow", "tensorflow"))
    for batch in (16, 512)
}


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
            run_json([CROSSBOW, "convert", data, f"libsvm:{path}", "--json"])
            lines = (path.read_text() + test.read_text()).splitlines()
        labels = [line.rstrip("\n").partition(" ")[0] for line in lines]
        labels = ["" if ":" in label else label for label in labels]
        classes = {label for of_row in labels for label in of_row.split(",") if label}
        features = max(int(line.split()[-1].partition(":")[0]) for line in lines if ":" in line)
        return Rows(path, features, len(classes), any("," in label for label in labels))


def run_json(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"exit status {done.returncode}: {last_line(done.stderr)}")
    return json.loads(done.stdout)


def train(job, rows, epochs):
    with tempfile.TemporaryDirectory() as folder:
        said = run_json(
            [
                *(CROSSBOW, "train", "--json", *RECIPE, "--data", f"libsvm:{rows.path}"),
                *("--lr", job.rate, "--seed", job.seed, "--epochs", epochs),
                *("--out", f"{folder}/run"),
                *(("--loss", "sigmoid") if rows.sets else ()),
                *SIDES[job.side],
            ]
        )
        lines = pathlib.Path(folder, "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    workers = [json.loads(line).get("workers") for line in lines if '"test_loss"' in line]
    kept = ("seconds", "train_loss", "test_loss")
    history = [{key: epoch[key] for key in kept} for epoch in said["history"]]
    return {"history": history, "workers": workers if any(workers) else None}


def measure(args, job, rows):
    """As many epochs as fit into the time, of which the first one tells."""
    if job.side in PEERS:
        system, batch = PEERS[job.side]
        command = [args.peers_python, "-m", "bench.hogbatch.loss_peer", system, rows.path]
        shape = ["--features", rows.features, "--classes", rows.classes]
        options = ["--batch", batch, "--rate", job.rate, "--seed", job.seed]
        sets = ["--sets"] if rows.sets else []
        return run_json([*command, *shape, *sets, *options, "--seconds", job.seconds])
    first = train(job, rows, 1)
    epochs = max(1, math.ceil(job.seconds / first["history"][0]["seconds"]))
    return first if epochs == 1 else train(job, rows, epochs)


def result_of(args, job, rows, results):
    """The number of failures."""
    if results.find(job):
        return 0
    load, failures = round(os.getloadavg()[0], 2), 0
    try:
        record = measure(args, job, rows)
    except Failed as failure:
        record = {"history": [], "failure": str(failure)}
        failures = "the loss became" not in str(failure)
    results.add(job, {**record, "load": load})
    log(f"{job.data}, {job.side}, rate {job.rate:g}, seed {job.seed}: {text_of(record)}")
    return failures


def run(args, results):
    failures = 0
    sides = [*SIDES, *(PEERS if args.peers_python else ())]
    for data in args.data:
        name = pathlib.Path(data).name
        with tempfile.TemporaryDirectory() as folder:
            rows = Rows.of(data, folder)
            jobs = [Job(name, side, r, 1, args.seconds) for side in sides for r in args.rates]
            failures += sum(result_of(args, job, rows, results) for job in jobs)
            for seed in range(2, args.seeds + 1):
                for side in sides:
                    first = [results.find(job) for job in jobs if job.side == side]
                    if not any(record["history"] for record in first):
                        continue
                    rate = best_of(first)[0]["job"]["rate"]
                    job = Job(name, side, rate, seed, args.seconds)
                    failures += result_of(args, job, rows, results)
    return failures


def tables(results):
    parts = []
    for data, of_data in group(results.lines.values(), lambda job: job["data"]).items():
        best = {side: best_of(of) for side, of in group(of_data, lambda j: j["side"]).items()}
        best = {side: of for side, of in best.items() if any(r["history"] for r in of)}
        best = {side: [r for r in of if r["history"]] for side, of in best.items()}
        least = {side: statistics.median(curve(r)[-1][1] for r in of) for side, of in best.items()}
        peers = {side: loss for side, loss in least.items() if side in PEERS}
        goal = min((peers or least).values())
        rows = [
            [
                *(side, f"{of[0]['job']['rate']:g}", f"{least[side]:.4f}"),
                *(seconds_text(of, goal), f"{duration(of[0]) / len(of[0]['history']):.1f}"),
            ]
            for side, of in best.items()
        ]
        of_whom = "of the best peer" if peers else "of the best side"
        header = ["side", "rate", "least training loss", f"s to {goal:.4f}, {of_whom}", "s an epoch"]
        seeds = len({record["job"]["seed"] for record in of_data})
        parts.append(f"## {data}: {MODEL}, {seeds} seed(s)\n\n{table(header, rows)}")
    return parts


def main():
    parser = parser_of("bench.hogbatch.loss", __doc__)
    add = parser.add_argument
    add("--data", type=listed(str), metavar="D,D", help="files in LIBSVM's format, sets' names")
    add("--seconds", type=float, default=60, help="of training, of each run (default 60)")
    add("--rates", type=listed(float), default=[0.1, 0.3], metavar="R,R")
    add("--seeds", type=int, default=3, metavar="N", help="seeds 1 to N (default 3)")
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
        warn_if_busy()
        failures = run(args, results)
    print("\n".join(tables(results)) if results.lines else "No results yet.")
    if args.plots and results.lines:
        plot(results.lines.values(), args.plots)
        plot_shares(results.lines.values(), args.plots)
    if failures:
        sys.exit(f"{failures} runs failed, as said above; delete their lines to try them again")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
