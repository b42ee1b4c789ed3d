"""The speed of two Hogwild nodes beside other ways to use two processors."""

import concurrent.futures
import dataclasses
import os
import statistics

from bench import CROSSBOW, Failed, log, nets, table, warn_if_busy
from bench.learning.results import group, select
from bench.peers.sides import Crossbow, options_of
from bench.processes import answer_of, keep_freed_memory, on_cpus, with_one_thread

MODEL = "mlp"
PLAIN_STEPS = ("--momentum", "0", "--weight-decay", "0")
HOGWILD, SMA, COPIES, TORCH = "hogwild", "sma", "copies", "torch"
NAMES = {
    HOGWILD: "Hogwild nodes",
    SMA: "sma learners",
    COPIES: "processes apart",
    TORCH: "PyTorch, shared memory",
}


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One side in one round: the key in the results."""

    side: str
    batch: int
    seconds: float
    round: int
    stage: str = "hogwild"
    model: str = MODEL

    key = dataclasses.asdict


class Bench(Crossbow):
    """A process of Crossbow with a learner for each of the CPUs."""

    def __init__(self, case, sync, cpus):
        super().__init__(case, len(cpus), len(cpus))
        command = [
            *(CROSSBOW, "bench", "--json", *options_of(case), "--learners", len(cpus)),
            *("--threads-per-learner", 1, "--sync", sync, *PLAIN_STEPS),
        ]
        self.command = on_cpus(cpus, command)


class Copies:
    """A process with a model of its own for each of the CPUs."""

    def __init__(self, case, cpus):
        self.sides = [Bench(case, "none", [cpu]) for cpu in cpus]

    def measure(self, seconds):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            return sum(pool.map(lambda side: side.measure(seconds), self.sides))


class Torch:
    """A process of PyTorch for each of the CPUs, with one model for all."""

    def __init__(self, case, python, cpus):
        self.command = [
            *(python, "-m", "bench.asynchronous.torch_hogwild", "--model", case["model"]),
            *("--batch", str(case["batch"]), "--cpus", ",".join(map(str, cpus))),
        ]

    def measure(self, seconds):
        command = [*self.command, "--seconds", str(seconds)]
        return answer_of(command, 120 + 10 * seconds, with_one_thread())["images_per_second"]


def sides_of(args, batch):
    case = {"model": MODEL, "batch": batch, "precision": "f32"}
    cpus = args.cpus[:2]
    sides = {
        HOGWILD: Bench(case, "hogwild", cpus),
        SMA: Bench(case, "sma", cpus),
        COPIES: Copies(case, cpus),
    }
    if args.torch_python:
        sides[TORCH] = Torch(case, args.torch_python, cpus)
    return sides


def run(runner, args):
    """The sides take turns to be the first of a round."""
    warn_if_busy()
    keep_freed_memory()
    for batch in args.batches:
        sides = sides_of(args, batch)
        order = list(sides)
        for number in range(args.rounds):
            first = number % len(order)
            for name in order[first:] + order[:first]:
                measure(runner, sides[name], Measurement(name, batch, args.seconds, number + 1))


def measure(runner, side, measurement):
    if runner.results.find(measurement):
        return
    text = f"{MODEL}, batch {measurement.batch}, {NAMES[measurement.side]}"
    load = os.getloadavg()[0]
    try:
        speed = side.measure(measurement.seconds)
    except Failed as failure:
        runner.failures += 1
        log(f"{text}: failed: {failure}")
        return
    log(f"{text}: {speed:,.0f} images/s")
    runner.results.add(measurement, {"images_per_second": speed, "load": round(load, 2)})


def row(batch, records, sides):
    speeds = group(records, lambda job: job["side"])
    speeds = {side: [r["images_per_second"] for r in runs] for side, runs in speeds.items()}
    medians = {side: statistics.median(found) for side, found in speeds.items()}

    def ratio(side):
        both = HOGWILD in medians and side in medians
        return f"**{medians[HOGWILD] / medians[side]:.2f}×**" if both else "–"

    spread = max((max(s) - min(s)) / medians[side] for side, s in speeds.items())
    cells = [f"{medians[side]:,.0f}" if side in medians else "–" for side in sides]
    rounds = min(map(len, speeds.values()))
    return [batch, *cells, *map(ratio, sides[1:]), f"{spread:.0%}", rounds]


def tables(results):
    records = select(results.lines.values(), stage="hogwild")
    parts = []
    for (model, seconds), runs in group(records, lambda j: (j["model"], j["seconds"])).items():
        measured = {record["job"]["side"] for record in runs}
        sides = [HOGWILD, *(side for side in NAMES if side in measured - {HOGWILD})]
        by_batch = group(runs, lambda job: job["batch"])
        ratios = [f"Hogwild / {NAMES[side]}" for side in sides[1:]]
        header = ["batch", *(NAMES[side] for side in sides), *ratios, "spread", "rounds"]
        parts += [
            f"## {model}: images/s of two nodes, learners or processes of one thread\n\n"
            f"Plain SGD without momentum; {nets.NETS[model][2]:,} parameters. Medians of rounds of "
            f"{seconds:g} s. Processes apart have models of their own. Spread: the largest "
            "(max − min) / median of a side.\n",
            table(header, [row(batch, of, sides) for batch, of in sorted(by_batch.items())]),
        ]
    return parts
