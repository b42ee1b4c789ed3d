"""Statistical efficiency: epochs to the target accuracy for k learners, by algorithm."""

import dataclasses
import math
from collections.abc import Callable

from bench import nets
from bench.learning import tasks
from bench.learning.results import best_accuracy, epochs_to_target
from bench.learning.tuning import tune

LEARNERS = [1, 2, 4, 8, 16]
TIGHT = "sma-tight"  # sma with learners held as tightly to the central model as is stable
ALGORITHMS = ["sma", TIGHT, "easgd", "local-sgd", "ssgd"]
MULTIPLES = [1, 2, 4]  # of the rate that suits one learner best; also each k asked for, up to k
CENTRAL_MOMENTUM = 0.9  # sma's default
SETTINGS_LEARNERS = [4, 8, 16]


def rounded(rate):
    return float(f"{rate:.6g}")


def tight_alpha(learners):
    """Just below sma's stability bound."""
    return round(0.95 * 2 * (1 + CENTRAL_MOMENTUM) / (1 + learners + CENTRAL_MOMENTUM), 3)


@dataclasses.dataclass(frozen=True)
class Way:
    """What an algorithm's name here means to `crossbow train`."""

    sync: str
    options: Callable = lambda learners: ()
    rate_factor: float = 1


# Elastic averaging's learners take plain steps. Without heavy-ball momentum m, a rate of
# r / (1 - m) moves the weights as far as r does with it.
WAYS = {
    TIGHT: Way("sma", lambda learners: ("--alpha", f"{tight_alpha(learners)}")),
    "easgd": Way("easgd", lambda _: ("--momentum", "0"), 1 / (1 - nets.MOMENTUM)),
    "eamsgd": Way("eamsgd", lambda _: ("--momentum", f"{nets.MOMENTUM}", "--nesterov")),
}


def algorithm_of(job):
    """As ALGORITHMS names it; "none" of one learner."""
    return job["variant"] or job["sync"]


def at_rates(records, rate_of):
    """By algorithm and number of learners, the records at the rate that `rate_of(all of them)`
    picks."""
    cells = {}
    for record in records:
        job = record["job"]
        cells.setdefault((algorithm_of(job), job["learners"]), []).append(record)
    picked = {cell: rate_of(of_cell) for cell, of_cell in cells.items()}
    return {
        cell: [r for r in of_cell if r["job"]["rate"] == picked[cell]]
        for cell, of_cell in cells.items()
    }


def alone(task, target, seed):
    """One learner; its rate is yet to be set."""
    return tasks.Job(
        task=task.name,
        stage="efficiency",
        side="crossbow",
        variant="",
        batch=tasks.SMALLEST_BATCH,
        rate=math.nan,
        epochs=tasks.EFFICIENCY_EPOCHS,
        target=target,
        seed=seed,
        options=task.efficiency_options,
    )


def together(job, algorithm, learners, multiple):
    """The job of one learner done by `learners`."""
    way = WAYS.get(algorithm, Way(algorithm))
    return dataclasses.replace(
        job,
        sync=way.sync,
        variant="" if algorithm == way.sync else algorithm,
        learners=learners,
        rate=rounded(job.rate * multiple * way.rate_factor),
        options=(*job.options, *way.options(learners)),
    )


def best_rate(records):
    """Of the first seed: fewest epochs, then the highest accuracy; None if there are no records."""
    first = [r for r in records if r["job"]["seed"] == 1]
    best = min(first, key=lambda r: (epochs_to_target(r), -best_accuracy(r)), default=None)
    return best and best["job"]["rate"]


def settings(job):
    """Each factor of sma on its own, away from the defaults: central momentum 0.9, alpha 1/k,
    exchanges after every step."""
    for options in (
        ("--central-momentum", "0"),
        ("--central-momentum", "0.5"),
        ("--alpha", f"{0.5 / job.learners:g}"),
        ("--alpha", f"{2 / job.learners:g}"),
        ("--sync-period", "4"),
    ):
        yield dataclasses.replace(job, stage="settings", options=(*job.options, *options))


def best_job(results, job):
    """With the best of its algorithm's rates; None if none was tried."""
    fields = job.key()
    del fields["rate"]
    rate = best_rate(results.select(**fields))
    return rate and dataclasses.replace(job, rate=rate)


def run(runner, args):
    """All k and algorithms at the base rate first, then at larger ones, all with the first seed;
    then settings of sma, and the other seeds, at the best rates."""
    task = tasks.TASKS[args.task]
    first = alone(task, args.target, 1)
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

    def best(algorithm, k):
        return best_job(runner.results, together(first, algorithm, k, 1))

    if "sma" in args.algorithms:
        for k in sorted(set(SETTINGS_LEARNERS) & set(learners)):
            if sma := best("sma", k):
                for changed in settings(sma):
                    runner.do(changed)
    chosen = [first, *(best(algorithm, k) for k in learners for algorithm in args.algorithms)]
    for seed in range(2, args.seeds + 1):
        for job in filter(None, chosen):
            runner.do(dataclasses.replace(job, seed=seed))
