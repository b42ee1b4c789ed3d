"""Statistical efficiency: epochs to the target accuracy for k learners, by algorithm."""

import dataclasses
import math

from bench import nets
from bench.learning import tasks
from bench.learning.results import by_merit, group, select
from bench.learning.tuning import tune

LEARNERS = [1, 2, 4, 8, 16]
TIGHT = "sma-tight"  # sma-paper with learners held as tightly to the central model as is stable
ALGORITHMS = ["sma", "sma-paper", TIGHT, "easgd", "local-sgd", "ssgd"]
MULTIPLES = [1, 2, 4]  # of the rate that suits one learner best; also each k asked for, up to k
CENTRAL_MOMENTUM = 0.9  # sma-paper's default


def tight_alpha(learners):
    """Just below sma-paper's stability bound."""
    return round(0.95 * 2 * (1 + CENTRAL_MOMENTUM) / (1 + learners + CENTRAL_MOMENTUM), 3)


# What an algorithm's name here means to `crossbow train`: --sync, further options of k learners, and
# a factor of the rate. Elastic averaging's learners take plain steps: without heavy-ball momentum m,
# a rate of r / (1 - m) moves the weights as far as r does with it.
WAYS = {
    TIGHT: ("sma-paper", lambda k: ("--alpha", f"{tight_alpha(k)}"), 1),
    "easgd": ("easgd", lambda _: ("--momentum", "0"), 1 / (1 - nets.MOMENTUM)),
    "eamsgd": ("eamsgd", lambda _: ("--momentum", f"{nets.MOMENTUM}", "--nesterov"), 1),
}


def algorithm_of(job):
    """As ALGORITHMS, here or in large.py, names it; "none" of one learner."""
    return job["variant"] or job["sync"]


def at_rates(records, rate_of):
    """By algorithm and number of learners, the records at the rate that `rate_of(all of them)`
    picks."""
    cells = group(records, lambda job: (algorithm_of(job), job["learners"]))
    return {cell: select(of_cell, rate=rate_of(of_cell)) for cell, of_cell in cells.items()}


def together(job, algorithm, learners, multiple):
    """The job of one learner done by `learners`."""
    sync, options, factor = WAYS.get(algorithm, (algorithm, lambda _: (), 1))
    return dataclasses.replace(
        job,
        sync=sync,
        variant="" if algorithm == sync else algorithm,
        learners=learners,
        rate=float(f"{job.rate * multiple * factor:.6g}"),
        options=(*job.options, *options(learners)),
    )


def best_rate(records):
    """Of the first seed; None if there are no records."""
    best = min(select(records, seed=1), key=by_merit, default=None)
    return best and best["job"]["rate"]


def best_job(results, job):
    """With the best of its algorithm's rates; None if none was tried."""
    fields = job.key()
    del fields["rate"]
    rate = best_rate(select(results.lines.values(), **fields))
    return rate and dataclasses.replace(job, rate=rate)


def run(runner, args):
    """All k and algorithms at the base rate first, then at larger ones, all with the first seed;
    then the other seeds at the best rates."""
    task = tasks.TASKS[args.task]
    first = tasks.Job(  # one learner; its rate is yet to be set
        *(task.name, "efficiency", "crossbow", "", tasks.SMALLEST_BATCH, math.nan),
        *(tasks.EFFICIENCY_EPOCHS, args.target),
        options=task.efficiency_options,
    )
    rates = tune(runner, first, task.rates)
    if not rates:
        raise SystemExit("one learner reached the target at no rate: nothing to compare with")
    first = dataclasses.replace(first, rate=rates[0]["job"]["rate"])
    learners = [k for k in args.learners if k > 1]
    diverged = set()
    for multiple in sorted({*MULTIPLES, *learners}):
        for k in learners:
            for algorithm in args.algorithms:
                if multiple > max(k, *MULTIPLES) or (k, algorithm) in diverged:
                    continue
                record = runner.do(together(first, algorithm, k, multiple))
                if record and record["outcome"] == "diverged":
                    diverged.add((k, algorithm))
    chosen = [first]
    for k in learners:
        for algorithm in args.algorithms:
            chosen.append(best_job(runner.results, together(first, algorithm, k, 1)))
    for seed in range(2, args.seeds + 1):
        for job in filter(None, chosen):
            runner.do(dataclasses.replace(job, seed=seed))
