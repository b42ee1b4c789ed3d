"""Loss against training time on rows of numbers: unlike workers that train one model, either of
them alone, learners that are alike, and PyTorch.

    python3 -m bench.hogbatch.loss --data w8a.gz                        on an idle machine
    python3 -m bench.hogbatch.loss --data w8a.gz --peers-python PATH
    python3 -m bench.hogbatch.loss --table --results docs/hogbatch.jsonl --plots docs

All sides read the same training and test rows, and try the same rates. Every finished run is a line
of the results, so the command may be stopped at any time; given again, it goes on where it was.
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

from bench import CROSSBOW, ROOT, Failed, chart, last_line, listed, log, parser_of, table
from bench import warn_if_busy
from bench.learning.results import Results, group

MODEL = "mlp"
TEST_SHARE = 10  # every so many rows one is for the test
SINGLE, BATCHED = "live:threads=2,batch=1", "replica:threads=2,batch=512"
BOTH = ("--worker", "live:threads=1,batch=1-64", "--worker", "replica:threads=1,batch=128-2048")
SIDES = {
    "adaptive-hogbatch": ("--sync", "adaptive-hogbatch", *BOTH),
    "hogbatch": ("--sync", "hogbatch", *BOTH),
    "live workers alone": ("--sync", "hogbatch", "--worker", SINGLE),
    "a replica alone": ("--sync", "hogbatch", "--worker", BATCHED),
    "sma, batch 16": ("--sync", "sma", "--learners", "2", "--batch", "16", "--momentum", "0"),
    "sma, batch 64": ("--sync", "sma", "--learners", "2", "--batch", "64", "--momentum", "0"),
}
PEERS = {"PyTorch, batch 16": 16, "PyTorch, batch 64": 64, "PyTorch, batch 512": 512}


@dataclasses.dataclass(frozen=True)
class Job:
    data: str
    side: str
    rate: float
    seed: int
    seconds: float
    model: str = MODEL

    key = dataclasses.asdict


def split(path, folder):
    """FILE and FILE.t, of which every tenth row is."""
    openers = {".gz": gzip.open, ".bz2": bz2.open}
    with openers.get(path.suffix, open)(path, "rt", encoding="ascii") as file:
        lines = [line for line in file if line.strip()]
    rows = pathlib.Path(folder) / "rows"
    test = rows.with_name("rows.t")
    rows.write_text("".join(x for i, x in enumerate(lines) if i % TEST_SHARE), encoding="ascii")
    test.write_text("".join(lines[::TEST_SHARE]), encoding="ascii")
    return rows


def run_json(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"exit status {done.returncode}: {last_line(done.stderr)}")
    return json.loads(done.stdout)


def train(args, job, rows, epochs):
    with tempfile.TemporaryDirectory() as folder:
        said = run_json(
            [
                *(CROSSBOW, "train", "--json", "--model", MODEL, "--data", f"libsvm:{rows}"),
                *("--lr", job.rate, "--lr-schedule", "fixed", "--weight-decay", 0, "--warmup", 0),
                *("--seed", job.seed, "--epochs", epochs, "--out", f"{folder}/run"),
                *SIDES[job.side],
            ]
        )
        lines = pathlib.Path(folder, "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    workers = [json.loads(line).get("workers") for line in lines if '"test_loss"' in line]
    history = [
        {
            "seconds": epoch["seconds"],
            "train_loss": epoch["train_loss"],
            "test_loss": epoch["test_loss"],
        }
        for epoch in said["history"]
    ]
    return {"history": history, "workers": workers if any(workers) else None}


def measure(args, job, rows):
    """As many epochs as fit into the time, of which the first one tells."""
    if job.side in PEERS:
        command = [args.peers_python, "-m", "bench.hogbatch.torch_loss", rows]
        options = ["--batch", PEERS[job.side], "--rate", job.rate, "--seed", job.seed]
        return run_json([*command, *options, "--seconds", job.seconds])
    first = train(args, job, rows, 1)
    epochs = max(1, math.ceil(job.seconds / first["history"][0]["seconds"]))
    return first if epochs == 1 else train(args, job, rows, epochs)


def run(args, results):
    failures = 0
    sides = [*SIDES, *(PEERS if args.peers_python else ())]
    with tempfile.TemporaryDirectory() as folder:
        rows = split(args.data, folder)
        for seed in range(1, args.seeds + 1):
            for side in sides:
                for rate in args.rates:
                    job = Job(args.data.name, side, rate, seed, args.seconds)
                    if results.find(job):
                        continue
                    load = round(os.getloadavg()[0], 2)
                    try:
                        record = measure(args, job, rows)
                    except Failed as failure:
                        record = {"history": [], "failure": str(failure)}
                        failures += "loss" not in str(failure)
                    results.add(job, {**record, "load": load})
                    log(f"{side}, rate {rate:g}, seed {seed}: {text_of(record)}")
    return failures


def text_of(record):
    if not record["history"]:
        return record["failure"]
    losses = [epoch["test_loss"] for epoch in record["history"]]
    return f"{len(losses)} epochs, {duration(record):.1f} s, least loss {min(losses):.4f}"


def duration(record):
    return sum(epoch["seconds"] for epoch in record["history"])


def curve(record):
    """Of (seconds, least test loss so far)."""
    points, seconds, least = [], 0.0, math.inf
    for epoch in record["history"]:
        seconds += epoch["seconds"]
        least = min(least, epoch["test_loss"])
        points.append((seconds, least))
    return points


def seconds_to(record, loss):
    return next((seconds for seconds, found in curve(record) if found <= loss), math.inf)


def best_of(runs):
    """The runs at the rate whose median least loss is the smallest."""

    def merit(of_rate):
        return statistics.median(curve(r)[-1][1] if r["history"] else math.inf for r in of_rate)

    return min(group(runs, lambda job: job["rate"]).values(), key=merit)


def seconds_text(runs, loss):
    seconds = statistics.median(seconds_to(r, loss) for r in runs)
    return f"{seconds:.1f}" if seconds < math.inf else "–"


def tables(results):
    parts = []
    for data, of_data in group(results.lines.values(), lambda job: job["data"]).items():
        best = {side: best_of(of) for side, of in group(of_data, lambda j: j["side"]).items()}
        best = {side: of for side, of in best.items() if any(r["history"] for r in of)}
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
        header = ["side", "rate", "least test loss", f"s to {goal:.4f}, {of_whom}", "s an epoch"]
        seeds = len({record["job"]["seed"] for record in of_data})
        parts.append(f"## {data}: {MODEL}, {seeds} seed(s)\n\n{table(header, rows)}")
    return parts


def plot(results, folder):
    for data, of_data in group(results.lines.values(), lambda job: job["data"]).items():
        sides = group(of_data, lambda job: job["side"])
        curves = {side: curve(best_of(of)[0]) for side, of in sides.items()}
        curves = {side: points for side, points in curves.items() if points}
        longest = max(points[-1][0] for points in curves.values())
        values = [loss for points in curves.values() for _, loss in points]
        low, high = min(values), sorted(values)[int(0.95 * (len(values) - 1))]
        name = data.partition(".")[0]
        picture = chart.Chart(f"{name}: test loss", "seconds of training", (0, longest), (low, high))
        for i in range(5):
            picture.level(low + (high - low) * i / 4, f"{low + (high - low) * i / 4:.3f}")
            picture.tick(longest * i / 4, f"{longest * i / 4:.0f}")
        for number, (side, points) in enumerate(curves.items()):
            colour = chart.colour(number)
            picture.line([(x, min(y, high)) for x, y in points], colour)
            picture.legend(len(curves) - number, side, colour)
        path = folder / f"{name}-hogbatch.svg"
        path.write_text(picture.text(), encoding="utf-8")
        log(f"wrote {path}")


def main():
    parser = parser_of("bench.hogbatch.loss", __doc__)
    add = parser.add_argument
    add("--data", type=pathlib.Path, metavar="FILE", help="rows in LIBSVM's format")
    add("--seconds", type=float, default=30, help="of training, of each run (default 30)")
    add("--rates", type=listed(float), default=[0.003, 0.01, 0.03, 0.1], metavar="R,R")
    add("--seeds", type=int, default=3, metavar="N", help="seeds 1 to N (default 3)")
    add("--peers-python", metavar="PATH", help="a Python that has torch and scikit-learn")
    path = ROOT / "build/hogbatch/loss.jsonl"
    add("--results", type=pathlib.Path, default=path, metavar="FILE")
    add("--table", action="store_true", help="only print what the results have")
    add("--plots", type=pathlib.Path, metavar="DIR", help="a picture of each data set")
    args = parser.parse_args()
    results, failures = Results(args.results), 0
    if not args.table:
        if not args.data or not args.data.exists():
            parser.error("name a file of rows with --data")
        warn_if_busy()
        failures = run(args, results)
    print("\n".join(tables(results)) if results.lines else "No results yet.")
    if args.plots and results.lines:
        plot(results, args.plots)
    if failures:
        sys.exit(f"{failures} runs failed, as said above; delete their lines to try them again")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
