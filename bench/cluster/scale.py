"""Who is ahead on how many simulated machines: the claim of Jin, Yuan, Iandola & Keutzer 2016, "How
to scale distributed deep learning?", that asynchronous algorithms are ahead on up to about 32
nodes, and synchronous SGD on more.

A small net learns MNIST with shifts, batch 4 a node, at a rate that drops twice. `crossbow simulate`
gives the virtual time to the target accuracy; neither the load of the machine nor its speed matters.
Every finished run is a line of the results, so a command may be stopped at any time; given again, it
goes on where it was.
"""

import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from bench import CROSSBOW, ROOT, Failed, last_line, listed, log, parser_of, table
from bench.chart import Chart, colour
from bench.learning.results import Results

EXAMPLES = """
Examples:
  python3 -m bench.cluster.scale --mnist DIR --quick              minutes
  nice -n 19 python3 -m bench.cluster.scale --mnist DIR           hours; may share the machine
  python3 -m bench.cluster.scale --table --plot docs/clusters.svg
"""
MODEL, PARAMETERS = "mlp:layers=1,width=64,activation=relu", 50890
BATCH, EPOCHS, DROPS, TARGET = 4, 10, (5, 8), 0.97
STEP = 0.001  # seconds, of an ordinary node
ALGORITHMS = ["ssgd", "sma", "easgd", "async-easgd", "gossip-pull", "gossip-push"]
PLAIN = ["async-easgd"]  # without momentum: steps of 1/(1 − 0.9) times the rate move as far
NODES = [4, 8, 16, 32, 64, 128, 256]
FAULTY_NODES = [8, 32, 128]
RATES, MOST_RATES = (0.003, 0.01, 0.03), 6
FACTOR = 3  # between rates beyond these
FIELDS = ("train_loss", "test_accuracy", "virtual_seconds", "distance")  # kept of each epoch


@dataclasses.dataclass(frozen=True)
class Condition:
    """Of the machines. `sum_steps`: what a sum over all of them takes, in steps."""

    title: str
    times: str
    sum_steps: float
    straggler: bool = False
    lost: float = 0  # share of the nodes


CONDITIONS = {
    "even": Condition("even steps, a sum takes 0.1", f"constant:{STEP}", 0.1),
    "uneven": Condition("steps ±30 %, a sum takes 0.1", f"uniform:{STEP}:0.3", 0.1),
    "even-slow": Condition("even steps, a sum takes 1", f"constant:{STEP}", 1),
    "uneven-slow": Condition("steps ±30 %, a sum takes 1", f"uniform:{STEP}:0.3", 1),
    "straggler": Condition(
        "steps ±30 %, a sum takes 0.1, node 0 four times slower", f"uniform:{STEP}:0.3", 0.1, True
    ),
    "lost": Condition(
        "steps ±30 %, a sum takes 0.1, 5 % of the nodes lost", f"uniform:{STEP}:0.3", 0.1, lost=0.05
    ),
}
FAULTY = ["straggler", "lost"]


@dataclasses.dataclass(frozen=True)
class Job:
    sync: str
    nodes: int
    condition: str
    rate: float
    seed: int = 1

    def key(self):
        fixed = {"model": MODEL, "batch": BATCH, "epochs": EPOCHS, "drops": list(DROPS)}
        return {**dataclasses.asdict(self), **fixed}

    def bandwidth(self):
        """With which a sum takes what the condition says: 2 · (k − 1)/k messages."""
        message = CONDITIONS[self.condition].sum_steps * STEP * self.nodes / (2 * (self.nodes - 1))
        return 4 * PARAMETERS / message

    def failures(self):
        """Of the last nodes, evenly over the first drop's time if steps alone took any."""
        count = max(1, round(CONDITIONS[self.condition].lost * self.nodes))
        until = DROPS[0] * 60000 / BATCH / self.nodes * STEP
        times = [until * (i + 1) / (count + 1) for i in range(count)]
        return ",".join(f"{self.nodes - 1 - i}:{time:.6g}" for i, time in enumerate(times))

    def options(self):
        condition = CONDITIONS[self.condition]
        return [
            *("--model", MODEL, "--batch", BATCH, "--pad", 2, "--epochs", EPOCHS),
            *("--lr", self.rate * (10 if self.sync in PLAIN else 1), "--lr-scaling", "sqrt"),
            *("--lr-schedule", "multistep", "--lr-milestones", ",".join(map(str, DROPS))),
            *("--lr-gamma", 0.1),
            *("--nodes", self.nodes, "--sync", self.sync, "--seed", self.seed),
            *("--step-times", condition.times, "--bandwidth", f"{self.bandwidth():.9g}"),
            *(("--straggler", "0:4") if condition.straggler else ()),
            *(("--fail", self.failures()) if condition.lost else ()),
        ]


def rounded(value):
    return None if value is None else float(f"{value:.6g}")


def simulate(job, data, cpu):
    """What is kept of the run; every process has one CPU."""
    with tempfile.TemporaryDirectory(prefix="crossbow-scale-") as folder:
        command = [CROSSBOW, "simulate", "--json", "--data", data, *job.options()]
        command = [str(word) for word in [*command, "--out", pathlib.Path(folder) / "run"]]
        pin = lambda: os.sched_setaffinity(0, {cpu})  # noqa: E731
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=pin)
    if done.returncode != 0 and "loss became" in done.stderr:
        return {"outcome": "diverged", "history": []}
    if done.returncode != 0:
        raise Failed(f"exit status {done.returncode}: {last_line(done.stderr)}")
    said = json.loads(done.stdout)
    history = [{name: rounded(epoch[name]) for name in FIELDS} for epoch in said["history"]]
    waiting = [node["waiting_seconds"] for node in said.get("nodes", [])]
    return {
        "outcome": "complete",
        "history": history,
        "virtual_seconds": said["virtual_seconds"],
        "train_seconds": said["train_seconds"],
        "waiting_share": sum(waiting) / len(waiting) / said["virtual_seconds"] if waiting else None,
    }


class Runner:
    """Runs what is not among the results, a process a CPU."""

    def __init__(self, results, data):
        self.results, self.data, self.failures = results, data, 0
        self.cpus = sorted(os.sched_getaffinity(0))

    def do(self, jobs):
        jobs = [job for job in dict.fromkeys(jobs) if not self.results.find(job)]
        free = list(self.cpus)
        with concurrent.futures.ThreadPoolExecutor(len(free)) as pool:

            def one(job):
                cpu = free.pop()
                try:
                    return simulate(job, self.data, cpu)
                finally:
                    free.append(cpu)

            futures = {pool.submit(one, job): job for job in jobs}
            for future in concurrent.futures.as_completed(futures):
                job = futures[future]
                try:
                    record = self.results.add(job, future.result())
                    log(f"{job.nodes} × {job.sync}, {job.condition}, rate {job.rate:g}, "
                        f"seed {job.seed}: {summary(record)}")
                except Failed as failure:
                    self.failures += 1
                    log(f"{job}: failed: {failure}")


def summary(record):
    if record["outcome"] == "diverged":
        return "diverged"
    return f"{100 * record['history'][-1]['test_accuracy']:.2f} %, {seconds_to_target(record):.4g} s"


def seconds_to_target(record):
    """On the virtual clock; infinity if the run did not get there."""
    times = (e["virtual_seconds"] for e in record["history"] if e["test_accuracy"] >= TARGET)
    return next(times, math.inf)


def merit(record):
    """Less is better: the time to the target, then the error at the end."""
    last = record["history"][-1]["test_accuracy"] if record["history"] else 0
    return seconds_to_target(record), 1 - last


def found(results, **wanted):
    def matches(job):
        return all(job[name] == value for name, value in wanted.items())

    return [record for record in results.lines.values() if matches(record["job"])]


def best_rate(results, sync, nodes):
    """With the first seed on even machines; None before they have run."""
    records = found(results, sync=sync, nodes=nodes, condition="even", seed=1)
    return min(records, key=merit)["job"]["rate"] if records else None


def further_rate(results, sync, nodes):
    """Beyond the edge, if the best rate lies there."""
    rates = sorted(r["job"]["rate"] for r in
                   found(results, sync=sync, nodes=nodes, condition="even", seed=1))
    best = best_rate(results, sync, nodes)
    if best is None or len(rates) >= MOST_RATES or best not in (rates[0], rates[-1]):
        return None
    return float(f"{best / FACTOR if best == rates[0] else best * FACTOR:.3g}")


def run(runner, args):
    results = runner.results
    cells = [(sync, k) for k in args.nodes for sync in args.algorithms]
    rates = RATES[1:2] if args.quick else RATES
    runner.do([Job(*cell, "even", rate) for cell in cells for rate in rates])
    while not args.quick:
        more = [Job(*cell, "even", rate) for cell in cells
                if (rate := further_rate(results, *cell)) is not None]
        if all(results.find(job) for job in more):
            break
        runner.do(more)
    chosen = {cell: rate for cell in cells if (rate := best_rate(results, *cell)) is not None}
    for seed in range(1, args.seeds + 1):
        jobs = []
        for condition in ("even", "uneven-slow") if args.quick else CONDITIONS:
            for (sync, k), rate in chosen.items():
                if condition in FAULTY and k not in FAULTY_NODES:
                    continue
                jobs.append(Job(sync, k, condition, rate, seed))
        runner.do(jobs)


def at_best_rate(results, sync, nodes, condition):
    rate = best_rate(results, sync, nodes)
    return found(results, sync=sync, nodes=nodes, condition=condition, rate=rate)


def median(records, value):
    return statistics.median(map(value, records))


def time_cell(records):
    """Seconds to the target, or the best accuracy that was not enough."""
    if not records:
        return "–"
    if all(record["outcome"] == "diverged" for record in records):
        return "diverged"
    time = median(records, seconds_to_target)
    if math.isfinite(time):
        return f"{time:.3g}"
    best = median(records, lambda r: max((e["test_accuracy"] for e in r["history"]), default=0))
    return f"({100 * best:.2f} %)"


def drops_cell(records):
    """The training loss in the epochs before and after each drop, and the spread at the end."""
    whole = [record for record in records if record["outcome"] == "complete"]
    if not whole:
        return "–"
    losses = [median(whole, lambda r, e=e: r["history"][e - 1]["train_loss"])
              for drop in DROPS for e in (drop, drop + 1)]
    spread = median(whole, lambda r: r["history"][-1]["distance"] or 0)
    return f"{losses[0]:.3f} → {losses[1]:.3f}, {losses[2]:.3f} → {losses[3]:.3f}; {spread:.2g}"


def rate_cell(results, sync, nodes):
    rate = best_rate(results, sync, nodes)
    return "–" if rate is None else f"{rate:g}"


def rows_of(results, nodes, cell):
    names = sorted({record["job"]["sync"] for record in results.lines.values()}, key=ALGORITHMS.index)
    return [[name, *(cell(name, k) for k in nodes)] for name in names]


def tables(results):
    nodes = sorted({record["job"]["nodes"] for record in results.lines.values()})
    seeds = max((record["job"]["seed"] for record in results.lines.values()), default=0)
    header = ["nodes", *map(str, nodes)]
    for name, condition in CONDITIONS.items():
        ks = [k for k in nodes if found(results, nodes=k, condition=name)]
        if not ks:
            continue
        yield (f"Virtual seconds to {TARGET:.0%}, {condition.title}; medians of seeds (at most "
               f"{seeds}); in brackets the best accuracy within {EPOCHS} epochs:\n")
        cell = lambda sync, k, name=name: time_cell(at_best_rate(results, sync, k, name))  # noqa: E731
        yield table(["nodes", *map(str, ks)], rows_of(results, ks, cell))
    yield "Best rates:\n"
    yield table(header, rows_of(results, nodes, lambda sync, k: rate_cell(results, sync, k)))
    yield "Training loss in the epochs before and after both drops; the nodes' spread at the end:\n"
    cell = lambda sync, k: drops_cell(at_best_rate(results, sync, k, "uneven"))  # noqa: E731
    ks = [k for k in nodes if k in FAULTY_NODES or k == nodes[-1]]
    yield table(["nodes", *map(str, ks)], rows_of(results, ks, cell))


def plot(results, condition):
    """Time to the target over the number of nodes, both by powers of two."""
    points = {}
    for sync in ALGORITHMS:
        for k in NODES:
            records = at_best_rate(results, sync, k, condition)
            time = median(records, seconds_to_target) if records else math.inf
            if math.isfinite(time):
                points.setdefault(sync, []).append((math.log2(k), math.log2(time)))
    times = [y for line in points.values() for _, y in line]
    low, high = math.floor(min(times)), math.ceil(max(times))
    title = f"Virtual seconds to {TARGET:.0%} on MNIST, {CONDITIONS[condition].title}"
    chart = Chart(title, "nodes", (2, 8), (low, high))
    for y in range(low, high + 1):
        chart.level(y, f"{2.0**y:g}")
    for k in NODES:
        chart.tick(math.log2(k), k)
    for i, (sync, line) in enumerate(points.items()):
        chart.line(line, colour(i))
        for x, y in line:
            chart.dot(x, y, colour(i))
        chart.legend(len(points) - 1 - i, sync, colour(i))
    return chart.text()


def parse_arguments():
    parser = parser_of("bench.cluster.scale", __doc__, EXAMPLES)
    add = parser.add_argument
    add("--mnist", metavar="DIR", help="folder of MNIST's gzipped IDX files")
    add("--algorithms", type=listed(str), default=ALGORITHMS, metavar="NAME,NAME")
    add("--nodes", type=listed(int), metavar="K,K", help="default 4 to 256")
    add("--seeds", type=int, metavar="N", help="seeds 1 to N (default 3)")
    add("--quick", action="store_true", help="4, 32, 256 nodes; one rate, one seed, no faults")
    path, about = ROOT / "build/cluster/scale.jsonl", "a JSON line per finished run"
    add("--results", type=pathlib.Path, default=path, metavar="FILE", help=about)
    add("--table", action="store_true", help="print the tables of what there is, and run nothing")
    add("--plot", type=pathlib.Path, metavar="FILE.svg", help="draw time over nodes")
    add("--condition", choices=CONDITIONS, default="uneven", help="of the plot (default uneven)")
    args = parser.parse_args()
    args.nodes = args.nodes or ([4, 32, 256] if args.quick else NODES)
    args.seeds = args.seeds or (1 if args.quick else 3)
    for name in set(args.algorithms) - set(ALGORITHMS):
        parser.error(f"{name}: choose from {', '.join(ALGORITHMS)}")
    if not args.table and not args.mnist:
        parser.error("--mnist DIR is missing (or --table, of results that there are)")
    return args


def main():
    args = parse_arguments()
    results = Results(args.results)
    runner = Runner(results, f"mnist:{args.mnist}")
    if not args.table:
        run(runner, args)
    print("\n".join(tables(results)) if results.lines else "No results yet.")
    if args.plot:
        args.plot.write_text(plot(results, args.condition))
    if runner.failures:
        sys.exit(f"{runner.failures} runs failed, as said above; given again, it tries only them")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
