"""Who is ahead on how many simulated machines: the claim of Jin, Yuan, Iandola & Keutzer 2016, "How
to scale distributed deep learning?", that asynchronous algorithms are ahead on up to about 32
nodes, and synchronous SGD on more.

A small net learns MNIST with shifts, or resnet-20 CIFAR-10, batch 4 a node, at a rate that drops twice.
`crossbow simulate` gives the virtual time to the target accuracy; neither the load of the machine nor
its speed matters, but for the choice of kernels, which round differently.
Every finished run is a line of the results, so a command may be stopped at any time; given again, it
goes on where it was.
"""

import concurrent.futures
import contextlib
import dataclasses
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

from bench import CROSSBOW, ROOT, Failed, last_line, listed, log, parser_of, run_main, table
from bench.chart import Chart, colour
from bench.learning.results import Results
from bench.learning.runner import end_with_parent

EXAMPLES = """
Examples:
  python3 -m bench.cluster.scale --mnist DIR --quick              five minutes
  nice -n 19 python3 -m bench.cluster.scale --mnist DIR           hours; may share the machine
  nice -n 19 python3 -m bench.cluster.scale --cifar DIR           the same, with resnet-20
  python3 -m bench.cluster.scale --mnist DIR --again 20 --results docs/clusters.jsonl     three minutes
  python3 -m bench.cluster.scale --table --results docs/clusters.jsonl --plot clusters.svg
"""
BATCH = 4
STEP = 0.001  # seconds, of an ordinary node
ALGORITHMS = ["ssgd", "sma", "sma-delayed", "easgd", "async-easgd", "gossip-pull", "gossip-push"]
PLAIN = ["async-easgd"]  # without momentum: steps of 1/(1 − 0.9) times the rate move as far
FAULTY_NODES = [8, 32, 128]
MOST_RATES = 6
FACTOR = 3  # between rates beyond these
FIELDS = ("train_loss", "test_accuracy", "virtual_seconds", "distance")  # kept of each epoch


@dataclasses.dataclass(frozen=True)
class Task:
    title: str
    model: str
    parameters: int
    images: int
    data: str  # before the folder
    options: tuple[str, ...]
    epochs: int
    drops: tuple[int, int]
    target: float
    nodes: tuple[int, ...]
    rates: tuple[float, ...]
    conditions: tuple[str, ...]  # the first one chooses the rates


@dataclasses.dataclass(frozen=True)
class Condition:
    """Of the machines. `sum_steps`: what a sum over all of them takes, in steps."""

    title: str
    times: str
    sum_steps: float
    straggler: bool = False
    lost: float = 0  # share of the nodes


CONDITIONS = {
    "even": Condition("even steps, a sum takes 0.1 steps", f"constant:{STEP}", 0.1),
    "uneven": Condition("steps ±30 %, a sum takes 0.1 steps", f"uniform:{STEP}:0.3", 0.1),
    "even-slow": Condition("even steps, a sum takes a step", f"constant:{STEP}", 1),
    "uneven-slow": Condition("steps ±30 %, a sum takes a step", f"uniform:{STEP}:0.3", 1),
    "straggler": Condition(
        "steps ±30 %, a sum takes 0.1 steps, node 0 four times slower", f"uniform:{STEP}:0.3", 0.1, True
    ),
    "lost": Condition(
        "steps ±30 %, a sum takes 0.1 steps, 5 % of the nodes lost", f"uniform:{STEP}:0.3", 0.1, lost=0.05
    ),
}
FAULTY = ["straggler", "lost"]
TASKS = {
    "mnist": Task(
        title="MNIST",
        model="mlp:layers=1,width=64,activation=relu",
        parameters=50890,
        images=60000,
        data="mnist:",
        options=("--pad", "2"),
        epochs=10,
        drops=(5, 8),
        target=0.97,
        nodes=(4, 8, 16, 32, 64, 128, 256),
        rates=(0.003, 0.01, 0.03),
        conditions=tuple(CONDITIONS),
    ),
    "cifar": Task(
        title="CIFAR-10",
        model="resnet-20",
        parameters=274394,
        images=50000,
        data="imagefolder:",
        options=(),
        epochs=6,
        drops=(3, 5),
        target=0.7,
        nodes=(8, 32, 128),
        rates=(0.003, 0.01, 0.03),
        conditions=("uneven",),
    ),
}
QUICK_NODES, QUICK_CONDITIONS = (4, 32, 256), ("even", "uneven-slow")


@dataclasses.dataclass(frozen=True)
class Job:
    sync: str
    nodes: int
    condition: str
    rate: float
    seed: int
    task: Task = dataclasses.field(repr=False)

    def key(self):
        task = self.task
        own = {name: value for name, value in vars(self).items() if name != "task"}
        fixed = {"model": task.model, "batch": BATCH, "epochs": task.epochs, "drops": list(task.drops)}
        return {**own, **fixed}

    def bandwidth(self):
        """With which a sum takes what the condition says: 2 · (k − 1)/k messages."""
        message = CONDITIONS[self.condition].sum_steps * STEP * self.nodes / (2 * (self.nodes - 1))
        return 4 * self.task.parameters / message

    def failures(self):
        """Of the last nodes, evenly over the first drop's time if steps alone took any."""
        count = max(1, round(CONDITIONS[self.condition].lost * self.nodes))
        until = self.task.drops[0] * self.task.images / BATCH / self.nodes * STEP
        times = [until * (i + 1) / (count + 1) for i in range(count)]
        return ",".join(f"{self.nodes - 1 - i}:{time:.6g}" for i, time in enumerate(times))

    def options(self):
        task, condition = self.task, CONDITIONS[self.condition]
        return [
            *("--model", task.model, "--batch", BATCH, *task.options, "--epochs", task.epochs),
            *("--lr", self.rate * (10 if self.sync in PLAIN else 1), "--lr-scaling", "sqrt"),
            *("--lr-schedule", "multistep", "--lr-milestones", ",".join(map(str, task.drops))),
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

        def begin():
            end_with_parent()
            os.sched_setaffinity(0, {cpu})

        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=begin)
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


@contextlib.contextmanager
def ended_at_once(pool):
    """Where it is left by an exception, as by Ctrl-C, it begins no more."""
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


class Runner:
    """Runs what is not among the results, a process a CPU."""

    def __init__(self, results, data):
        self.results, self.data, self.failures = results, data, 0
        self.cpus = sorted(os.sched_getaffinity(0))

    def do(self, jobs):
        jobs = [job for job in dict.fromkeys(jobs) if not self.results.find(job)]
        free = list(self.cpus)
        with ended_at_once(concurrent.futures.ThreadPoolExecutor(len(free))) as pool:

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
                        f"seed {job.seed}: {summary(job.task, record)}")
                except Failed as failure:
                    self.failures += 1
                    log(f"{job}: failed: {failure}")


def seconds_to_target(task, record):
    """On the virtual clock; infinity if the run did not get there."""
    times = (e["virtual_seconds"] for e in record["history"] if e["test_accuracy"] >= task.target)
    return next(times, math.inf)


def summary(task, record):
    if record["outcome"] == "diverged":
        return "diverged"
    return f"{100 * last_accuracy(record):.2f} %, {seconds_to_target(task, record):.4g} s"


class Found:
    """Of a task's runs, what there is."""

    def __init__(self, task, results):
        self.task = task
        lines = results.lines.values()
        self.records = [record for record in lines if record["job"]["model"] == task.model]

    def of(self, **wanted):
        def matches(job):
            return all(job[name] == value for name, value in wanted.items())

        return [record for record in self.records if matches(record["job"])]

    def seconds_to_target(self, record):
        return seconds_to_target(self.task, record)

    def merit(self, record):
        """Less is better: the time to the target, then the error at the end."""
        return self.seconds_to_target(record), 1 - last_accuracy(record)

    def of_first_seed(self, sync, nodes):
        """On machines that choose the rate."""
        return self.of(sync=sync, nodes=nodes, condition=self.task.conditions[0], seed=1)

    def best_rate(self, sync, nodes):
        """None before these have run."""
        records = self.of_first_seed(sync, nodes)
        return min(records, key=self.merit)["job"]["rate"] if records else None

    def further_rate(self, sync, nodes):
        """Beyond the edge, if the best rate lies there."""
        rates = sorted(record["job"]["rate"] for record in self.of_first_seed(sync, nodes))
        best = self.best_rate(sync, nodes)
        if best is None or len(rates) >= MOST_RATES or best not in (rates[0], rates[-1]):
            return None
        return float(f"{best / FACTOR if best == rates[0] else best * FACTOR:.3g}")

    def at_best_rate(self, sync, nodes, condition):
        rate = self.best_rate(sync, nodes)
        return self.of(sync=sync, nodes=nodes, condition=condition, rate=rate)


def run(runner, task, args):
    cells = [(sync, k) for k in args.nodes for sync in args.algorithms]
    rates = args.rates or (task.rates[1:2] if args.quick else task.rates)
    runner.do([Job(*cell, task.conditions[0], rate, 1, task) for cell in cells for rate in rates])
    while not (args.quick or args.rates):
        found = Found(task, runner.results)
        more = [Job(*cell, task.conditions[0], rate, 1, task) for cell in cells
                if (rate := found.further_rate(*cell)) is not None]
        if all(runner.results.find(job) for job in more):
            break
        runner.do(more)
    found = Found(task, runner.results)
    chosen = {cell: rate for cell in cells if (rate := found.best_rate(*cell)) is not None}
    for seed in range(1, args.seeds + 1):
        jobs = []
        for condition in QUICK_CONDITIONS if args.quick else task.conditions:
            for (sync, k), rate in chosen.items():
                if condition in FAULTY and k not in FAULTY_NODES:
                    continue
                jobs.append(Job(sync, k, condition, rate, seed, task))
        runner.do(jobs)


def last_accuracy(record):
    return record["history"][-1]["test_accuracy"] if record["history"] else 0


def again(runner, task, args):
    """Repeats runs drawn from the results, and says what differs."""
    wanted = {"sync": args.algorithms, "nodes": args.nodes}
    whole = [record for record in Found(task, runner.results).records if record["outcome"] == "complete"
             and all(record["job"][name] in choice for name, choice in wanted.items())]
    if not whole:
        raise Failed(f"{runner.results.path} has no such run of {task.title}")
    drawn = random.sample(whole, min(args.again, len(whole)))
    varied = [field.name for field in dataclasses.fields(Job) if field.name != "task"]
    jobs = [Job(**{name: record["job"][name] for name in varied}, task=task) for record in drawn]
    with tempfile.TemporaryDirectory(prefix="crossbow-scale-") as folder:
        repeated = Runner(Results(pathlib.Path(folder) / "again.jsonl"), runner.data)
        repeated.do(jobs)
    if repeated.failures:
        raise Failed(f"{repeated.failures} runs failed, as said above")
    pairs = [(old, repeated.results.find(job)) for old, job in zip(drawn, jobs)]
    same = sum(old["history"] == new["history"] for old, new in pairs)
    as_soon = sum(seconds_to_target(task, old) == seconds_to_target(task, new) for old, new in pairs)
    most = max(abs(last_accuracy(old) - last_accuracy(new)) for old, new in pairs)
    print(f"{same} of {len(pairs)} runs are the same to the sixth digit. {as_soon} of {len(pairs)} reach "
          f"{100 * task.target:g} % at the same time, or neither does. The last accuracies differ by at most "
          f"{100 * most:.2f} points.")


def median(records, value):
    return statistics.median(map(value, records))


def time_cell(found, records):
    """Seconds to the target, or the best accuracy that was not enough."""
    if not records:
        return "–"
    if all(record["outcome"] == "diverged" for record in records):
        return "diverged"
    time = median(records, found.seconds_to_target)
    if math.isfinite(time):
        return f"{time:.3g}"
    best = median(records, lambda r: max((e["test_accuracy"] for e in r["history"]), default=0))
    return f"({100 * best:.2f} %)"


def last_cell(records):
    """The accuracy in the end."""
    whole = [record for record in records if record["outcome"] == "complete"]
    return f"{100 * median(whole, last_accuracy):.2f} %" if whole else "–"


def drops_cell(task, records):
    """The training loss in the epochs before and after each drop, and the spread at the end."""
    whole = [record for record in records if record["outcome"] == "complete"]
    if not whole:
        return "–"
    losses = [median(whole, lambda r, e=e: r["history"][e - 1]["train_loss"])
              for drop in task.drops for e in (drop, drop + 1)]
    spread = median(whole, lambda r: r["history"][-1]["distance"] or 0)
    return f"{losses[0]:.3f} → {losses[1]:.3f}, {losses[2]:.3f} → {losses[3]:.3f}; {spread:.2g}"


def rate_cell(rate):
    return "–" if rate is None else f"{rate:g}"


def tables(task, results):
    found = Found(task, results)
    nodes = sorted({record["job"]["nodes"] for record in found.records})
    seeds = max((record["job"]["seed"] for record in found.records), default=0)
    names = sorted({record["job"]["sync"] for record in found.records}, key=ALGORITHMS.index)

    def rows(ks, cell):
        return table(["nodes", *map(str, ks)], [[name, *(cell(name, k) for k in ks)] for name in names])

    for name in task.conditions:
        ks = [k for k in nodes if found.of(nodes=k, condition=name)]
        if not ks:
            continue
        yield (f"{task.title}: virtual seconds to {task.target:.0%}, {CONDITIONS[name].title}; medians of "
               f"seeds (at most {seeds}); in brackets the best accuracy within {task.epochs} epochs:\n")
        yield rows(ks, lambda sync, k, name=name: time_cell(found, found.at_best_rate(sync, k, name)))
    yield "Best rates:\n"
    yield rows(nodes, lambda sync, k: rate_cell(found.best_rate(sync, k)))
    yield f"Accuracy after the last epoch, {CONDITIONS['uneven'].title}:\n"
    yield rows(nodes, lambda sync, k: last_cell(found.at_best_rate(sync, k, "uneven")))
    yield "Training loss in the epochs before and after both drops; the nodes' spread at the end:\n"
    ks = [k for k in nodes if k in FAULTY_NODES or k == nodes[-1]]
    yield rows(ks, lambda sync, k: drops_cell(task, found.at_best_rate(sync, k, "uneven")))


def plot(task, results, condition):
    """Time to the target over the number of nodes, both by powers of two."""
    points, found = {}, Found(task, results)
    for sync in ALGORITHMS:
        for k in task.nodes:
            records = found.at_best_rate(sync, k, condition)
            time = median(records, found.seconds_to_target) if records else math.inf
            if math.isfinite(time):
                points.setdefault(sync, []).append((math.log2(k), math.log2(time)))
    times = [y for line in points.values() for _, y in line]
    low, high = math.floor(min(times)), math.ceil(max(times))
    title = f"Virtual seconds to {task.target:.0%} on {task.title}, {CONDITIONS[condition].title}"
    chart = Chart(title, "nodes", (2, 8), (low, high))
    for y in range(low, high + 1):
        chart.level(y, f"{2.0**y:g}")
    for k in task.nodes:
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
    add("--cifar", metavar="DIR", help="folder of CIFAR-10 as JPEGs, with train/ and test/")
    add("--algorithms", type=listed(str), default=ALGORITHMS, metavar="NAME,NAME")
    add("--nodes", type=listed(int), metavar="K,K", help="default 4 to 256; of resnet-20 8, 32, 128")
    add("--rates", type=listed(float), metavar="R,R", help="these alone (default: until none further is better)")
    add("--seeds", type=int, metavar="N", help="seeds 1 to N (default 3)")
    add("--quick", action="store_true", help="4, 32, 256 nodes; one rate, one seed, no faults")
    add("--again", type=int, metavar="N", help="repeat N of the task's results, drawn at random, and compare")
    path, about = ROOT / "build/cluster/scale.jsonl", "a JSON line per finished run"
    add("--results", type=pathlib.Path, default=path, metavar="FILE", help=about)
    add("--table", action="store_true", help="print the tables of what there is, and run nothing")
    add("--plot", type=pathlib.Path, metavar="FILE.svg", help="draw time over nodes, with --cifar of resnet-20")
    add("--condition", choices=CONDITIONS, default="uneven", help="of the plot (default uneven)")
    args = parser.parse_args()
    for name in set(args.algorithms) - set(ALGORITHMS):
        parser.error(f"{name}: choose from {', '.join(ALGORITHMS)}")
    if args.again is not None and (args.again < 1 or args.table or args.quick or args.plot or args.rates or args.seeds):
        parser.error("--again N: at least one; beside it --algorithms and --nodes choose from which")
    if args.table + bool(args.mnist) + bool(args.cifar) != 1:
        parser.error("one of --mnist DIR, --cifar DIR and --table (of results that there are) is needed")
    if args.quick and args.cifar:
        parser.error("--quick is of --mnist; --nodes, --rates and --seeds shorten --cifar")
    return args


def main():
    args = parse_arguments()
    results = Results(args.results)
    task = TASKS["cifar" if args.cifar else "mnist"]
    args.nodes = args.nodes or (QUICK_NODES if args.quick else task.nodes)
    args.seeds = args.seeds or (1 if args.quick else 3)
    runner = Runner(results, task.data + (args.cifar or args.mnist or ""))
    if args.again:
        return again(runner, task, args)
    if not args.table:
        run(runner, task, args)
    shown = [task for task in TASKS.values() if Found(task, results).records]
    print("\n".join(part for each in shown for part in tables(each, results)) or "No results yet.")
    if args.plot:
        args.plot.write_text(plot(task, results, args.condition))
    if runner.failures:
        sys.exit(f"{runner.failures} runs failed, as said above; given again, it tries only them")


if __name__ == "__main__":
    run_main(main)
