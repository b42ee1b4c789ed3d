"""Statistical efficiency: epochs to the target accuracy for k learners, by algorithm."""

import dataclasses
import math

import tasks
from results import best_accuracy, epochs_to_target
from tuning import tune

LEARNERS = [1, 2, 4, 8, 16]
ALGORITHMS = ["sma", "easgd", "local-sgd", "ssgd"]
MULTIPLES = [1, 2, 4]  # of the rate that suits one learner best
# Elastic averaging's learners take plain steps. Without heavy-ball momentum m, a rate of
# r / (1 - m) moves the weights as far as r does with it.
OPTIONS = {
    "easgd": ("--momentum", "0"),
    "eamsgd": ("--momentum", f"{tasks.MOMENTUM}", "--nesterov"),
}
RATE_FACTORS = {"easgd": 1 / (1 - tasks.MOMENTUM)}
SETTINGS_LEARNERS = [4, 8, 16]


def rounded(rate):
    return float(f"{rate:.6g}")


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
    )


def together(job, sync, learners, multiple, base_rate):
    return dataclasses.replace(
        job,
        sync=sync,
        learners=learners,
        rate=rounded(base_rate * multiple * RATE_FACTORS.get(sync, 1)),
        options=OPTIONS.get(sync, ()),
    )


def multiples(sync, learners):
    return sorted({*MULTIPLES, *([learners] if sync == "ssgd" else [])})


def best_rate(records):
    """Fewest epochs, then the highest accuracy; None if there are no records."""
    best = min(records, key=lambda r: (epochs_to_target(r), -best_accuracy(r)), default=None)
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
        yield dataclasses.replace(job, stage="settings", options=options)


def run(runner, args):
    """The most useful table first: all k and algorithms at the base rate, first seed."""
    task = tasks.TASKS[args.task]
    first = alone(task, args.target, 1)
    rates = tune(runner, first, task.rates)
    if not rates:
        raise SystemExit("one learner reached the target at no rate: nothing to compare with")
    base_rate = rates[0]["job"]["rate"]
    for seed in range(1, args.seeds + 1):
        job = dataclasses.replace(first, seed=seed, rate=base_rate)
        runner.do(job)
        learners = [k for k in args.learners if k > 1]
        given_up = set()
        for multiple in sorted({*MULTIPLES, *learners}):
            for k in learners:
                for sync in args.algorithms:
                    if multiple not in multiples(sync, k) or (k, sync) in given_up:
                        continue
                    record = runner.do(together(job, sync, k, multiple, base_rate))
                    if record and record["outcome"] == "diverged":
                        given_up.add((k, sync))
        if "sma" in args.algorithms:
            for k in sorted(set(SETTINGS_LEARNERS) & set(learners)):
                sma = together(job, "sma", k, 1, base_rate)
                fields = {**sma.key()}
                del fields["rate"]
                rate = best_rate(runner.results.select(**fields)) or sma.rate
                for changed in settings(dataclasses.replace(sma, rate=rate)):
                    runner.do(changed)
