"""Time to accuracy: speed by batch, rates tuned by epochs, the best of both with all seeds."""

import dataclasses
import math
import statistics

from bench import log, warn_if_busy
from bench.learning import tasks
from bench.learning.results import epochs_to_target, group, seconds_to_target
from bench.learning.tuning import tune

STAGES = ["speed", "tune", "final"]
SPEED_EPOCHS = 2  # the first warms up
MEAN = ("polyak-ruppert", ("--averaging-eta", "8", "--sync-period", "16"))


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A side with one way to learn, and ways to run it that differ in speed alone: these are tuned
    once and compete by speed."""

    name: str
    side: str
    variants: tuple
    sync: str = "none"
    options: tuple = ()  # as Job's
    per_cpu: bool = False
    tasks: tuple = tuple(tasks.TASKS)


CONTESTANTS = {
    "crossbow-1": Contestant("Crossbow, one learner", "crossbow", ("one learner",)),
    "crossbow-mean": Contestant(
        "Crossbow, one learner averaged over time", "crossbow", ("one learner",), *MEAN
    ),
    "crossbow-k": Contestant(
        "Crossbow, a learner per CPU", "crossbow", ("learner per CPU",), "sma", per_cpu=True
    ),
    "pytorch": Contestant("PyTorch", "pytorch", ("eager", "compile")),
    "pytorch-mean": Contestant(
        "PyTorch, averaged over time", "pytorch", ("eager", "compile"), *MEAN
    ),
    "jax": Contestant("JAX", "jax", ("gather outside", "gather inside"), tasks=("mnist",)),
}


def sides_of(task):
    return [name for name, contestant in CONTESTANTS.items() if task in contestant.tasks]


def chosen_contestants(args):
    """With the ways to run them that were asked for; all, where none of a side's were named."""
    for contestant in (CONTESTANTS[name] for name in args.sides):
        named = tuple(v for v in contestant.variants if v in args.variants)
        yield dataclasses.replace(contestant, variants=named or contestant.variants)


def job_of(args, contestant, batch, rate):
    return tasks.Job(
        *(args.task, "tune", contestant.side, contestant.variants[0], batch, rate),
        *(tasks.TASKS[args.task].epochs, args.target),
        learners=len(args.cpus) if contestant.per_cpu else 1,
        sync=contestant.sync,
        options=contestant.options,
    )


def quickest(runner, args, contestant, batch):
    """(seconds per epoch, variant), at the smallest rate, where none diverges."""
    job = job_of(args, contestant, batch, tasks.TASKS[args.task].rates[0])
    job = dataclasses.replace(job, stage="speed", epochs=SPEED_EPOCHS, target=None)

    def seconds(variant):
        record = runner.do(dataclasses.replace(job, variant=variant))
        return record["history"][-1]["seconds"] if record else math.inf

    return min((seconds(variant), variant) for variant in contestant.variants)


def choose(runner, args, contestant):
    """The job, of the final stage, with the least expected time; None if it reaches no target."""
    best, least = None, math.inf
    for batch in args.batches:
        seconds, variant = quickest(runner, args, contestant, batch)
        job = job_of(args, contestant, batch, math.nan)
        for record in tune(runner, job, tasks.TASKS[args.task].rates, least / seconds)[:1]:
            if epochs_to_target(record) * seconds < least:
                least, rate = epochs_to_target(record) * seconds, record["job"]["rate"]
                best = dataclasses.replace(job, rate=rate, stage="final", variant=variant)
    return best


def run(runner, args):
    """Each stage runs what it lacks of those before it."""
    contestants = list(chosen_contestants(args))
    if "speed" in args.stages:
        warn_if_busy()
        for batch in args.batches:
            for contestant in contestants:
                quickest(runner, args, contestant, batch)
    if "tune" in args.stages:
        for contestant in contestants:
            choose(runner, args, contestant)
    if "final" in args.stages:
        warn_if_busy()
        chosen = [(c.name, choose(runner, args, c)) for c in contestants]
        for seed in range(1, args.seeds + 1):
            for name, job in chosen:
                if job:
                    runner.do(dataclasses.replace(job, seed=seed))
                elif seed == 1:
                    log(f"{name} reached {args.target:.1%} with no batch and rate: left out")


def contestant_of(job):
    """The name for tables; None of other stages' jobs."""
    names = {(c.side, c.sync): c.name for c in CONTESTANTS.values()}
    return names.get((job["side"], job["sync"]))


def by_choice(records):
    """The final runs of each (contestant's name, batch, rate), contestants in their order. A side
    whose tuning found a better choice later has several."""
    names = [c.name for c in CONTESTANTS.values()]
    choices = group(records, lambda job: (contestant_of(job), job["batch"], job["rate"]))
    return dict(sorted(choices.items(), key=lambda item: (names.index(item[0][0]), item[0][1:])))


def median_seconds(records):
    """Infinity counts: a side that misses the target with most seeds has no time."""
    return statistics.median(map(seconds_to_target, records))
