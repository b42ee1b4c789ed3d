"""Who is ahead on the virtual clock: epochs and virtual time to the target accuracy, by algorithm
and number of nodes, with and without a straggler."""

import dataclasses
import math
import statistics

from bench import CROSSBOW, log, table
from bench.asynchronous.jobs import ASYNCHRONOUS, SYNCHRONOUS, job_of
from bench.learning.report import values
from bench.learning.results import best_accuracy, by_merit, epochs_to_target, group, select
from bench.learning.tuning import lags
from bench.processes import answer_of

ALGORITHMS = [*ASYNCHRONOUS, *SYNCHRONOUS]
PLAIN = ("hogwild", "async-easgd")  # their steps have no momentum
NODES = [2, 4, 8, 16]
DEFAULT = "default"
RATES = [DEFAULT, 0.01, 0.02, 0.005]
CLOCK = ("--clock", "virtual")
CONDITIONS = {
    "without a straggler": CLOCK,
    "where node 0 takes four times as long": (*CLOCK, "--straggler", "0:4"),
}


def rate(word):
    """One of --lr-values."""
    return word if word == DEFAULT else float(word)


def recipe_of(model):
    return answer_of([CROSSBOW, "models", model, "--json"])["recipe"]


def rates_of(args, recipe, algorithm):
    """A job's rate by what it amounts to, in the order given; of equal ones the first. Without
    momentum m, a rate of r / (1 - m) moves the weights as far as r does with it."""
    factor = 1 / (1 - recipe["momentum"]) if algorithm in PLAIN else 1
    rates = {}
    for value in args.lr_values:
        amount = float(f"{factor * (recipe['lr'] if value == DEFAULT else value):.6g}")
        rates.setdefault(amount, None if value == DEFAULT else amount)
    return rates


def best(records):
    """The best record of the first seed; None if there is none that learnt."""
    learnt = (r for r in select(records, seed=1) if r["outcome"] != "diverged")
    return min(learnt, key=by_merit, default=None)


def try_rates(runner, job, rates):
    """The record of the best rate. Runs that can no longer be the best are cut; rates above one
    that diverged are skipped."""
    records, too_high = [], math.inf
    for amount, value in rates.items():
        if amount >= too_high:
            continue
        fewest = min(map(epochs_to_target, records), default=math.inf)
        histories = [record["history"] for record in records]

        def hopeless(history):
            late = len(history) >= fewest and history[-1]["test_accuracy"] < job.target
            return late or lags(history, histories)

        record = runner.do(dataclasses.replace(job, rate=value), hopeless)
        if record and record["outcome"] == "diverged":
            too_high = amount
        elif record:
            records.append(record)
    return best(records)


def run(runner, args):
    """All rates with the first seed, then the other seeds at the best rates."""
    recipe = recipe_of(args.model)
    cells = [("sma", 1, CLOCK)]
    for options in CONDITIONS.values():
        cells += [(name, k, options) for k in args.nodes for name in args.algorithms]
    chosen = []
    for algorithm, k, options in cells:
        job = job_of(args, algorithm, k, options, args.target)
        found = try_rates(runner, job, rates_of(args, recipe, algorithm))
        if found:
            chosen.append(dataclasses.replace(job, rate=found["job"]["rate"]))
        else:
            log(f"{job.sync} of {job.learners} learnt at no rate: no further seeds")
    for seed in range(2, args.seeds + 1):
        for job in chosen:
            runner.do(dataclasses.replace(job, seed=seed))


def at_best_rate(records):
    found = best(records)
    return select(records, rate=found["job"]["rate"]) if found else []


def median(records, value):
    return statistics.median(map(value, records))


def virtual_time(record):
    """To the target; infinity if the run did not get there."""
    return math.inf if record.get("virtual_time") is None else record["virtual_time"]


def merit_cell(records):
    """Epochs / virtual time, or the epochs that were not enough and the best accuracy in them."""
    runs = at_best_rate(records)
    if not runs:
        return "diverged" if records else "–"
    epochs = median(runs, epochs_to_target)
    if math.isinf(epochs):
        accuracy = 100 * median(runs, best_accuracy)
        return f">{median(runs, lambda r: len(r['history'])):g} ({accuracy:.2f} %)"
    return f"{epochs:g} / {median(runs, virtual_time):,.0f}"


def rate_cell(records):
    runs = at_best_rate(records)
    if not runs:
        return "–"
    found = runs[0]["job"]["rate"]
    return DEFAULT if found is None else f"{found:g}"


def algorithms_table(records, cell):
    cells = group(records, lambda job: (job["sync"], job["learners"]))
    nodes = values(records, "learners")
    names = sorted({name for name, _ in cells})
    names = [name for name in dict.fromkeys([*ALGORITHMS, *names]) if name in names]
    rows = [[name, *(cell(cells.get((name, k), [])) for k in nodes)] for name in names]
    return table(["", *(f"k = {k}" for k in nodes)], rows)


def parts_of(records):
    """The page of one task, target and limit of epochs."""
    job = records[0]["job"]
    seeds = max(values(records, "seed"))
    yield (
        f"## {job['task']}: epochs to {job['target']:.1%} / virtual time, k nodes of batch "
        f"{job['batch']}, epoch limit {job['epochs']}\n\n"
        "Virtual time is counted in steps of an ordinary node. Medians of seeds (at most "
        f"{seeds}) at the best of the rates tried with seed 1. `>n (a %)`: not within n epochs, in "
        "which a was the best accuracy.\n"
    )
    alone = select(records, learners=1)
    if alone:
        yield f"One learner: {merit_cell(alone)} (`--lr`: {rate_cell(alone)}).\n"
    for name, options in CONDITIONS.items():
        runs = [r for r in select(records, options=list(options)) if r["job"]["learners"] > 1]
        if runs:
            yield f"k nodes {name}:\n"
            yield algorithms_table(runs, merit_cell)
            yield "Their best rates, as `--lr`:\n"
            yield algorithms_table(runs, rate_cell)


def tables(results):
    records = select(results.lines.values(), stage="ahead")
    pages = group(records, lambda job: (job["task"], job["target"], job["epochs"]))
    return [part for page in pages.values() for part in parts_of(page)]
