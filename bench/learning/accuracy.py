"""Time to accuracy: speed by batch, rates tuned by epochs, the least epochs × seconds with all seeds."""

import dataclasses
import math
import os
import statistics

import tasks
from results import epochs_to_target, seconds_to_target
from runner import log
from tuning import tune

STAGES = ["speed", "tune", "final"]
SPEED_EPOCHS = 2  # the first warms up


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A side with one way to learn, and ways to run it that differ in speed alone."""

    name: str
    side: str
    variants: tuple
    sync: str = "none"
    per_cpu: bool = False
    options: tuple = ()  # as Job's


CONTESTANTS = {
    "crossbow-1": Contestant("Crossbow, one learner", "crossbow", ("one learner",)),
    "crossbow-mean": Contestant(
        "Crossbow, one learner averaged over time",
        "crossbow",
        ("one learner",),
        "polyak-ruppert",
        options=("--averaging-eta", "8", "--sync-period", "16"),
    ),
    "crossbow-k": Contestant(
        "Crossbow, a learner per CPU", "crossbow", ("learner per CPU",), "sma", True
    ),
    "pytorch": Contestant("PyTorch", "pytorch", ("eager", "compile")),
    "jax": Contestant("JAX", "jax", ("gather outside", "gather inside")),
}


def variants(names):
    return [variant for name in names if name in CONTESTANTS for variant in CONTESTANTS[name].variants]


def chosen_contestants(args):
    """With the ways to run them that were asked for; all, where none of a side's were named."""
    for name in args.sides:
        contestant = CONTESTANTS[name]
        named = tuple(v for v in contestant.variants if v in args.variants)
        yield dataclasses.replace(contestant, variants=named or contestant.variants)


def job_of(args, contestant, batch, rate, **fields):
    return tasks.Job(
        **{
            "task": args.task,
            "stage": "tune",
            "side": contestant.side,
            "variant": contestant.variants[0],
            "batch": batch,
            "rate": rate,
            "epochs": tasks.TASKS[args.task].epochs,
            "target": args.target,
            "learners": len(args.cpus) if contestant.per_cpu else 1,
            "sync": contestant.sync,
            "options": contestant.options,
            **fields,
        }
    )


def seconds_per_epoch(runner, args, contestant, variant, batch):
    rate = tasks.TASKS[args.task].rates[0]  # none diverges at the smallest
    fields = {"stage": "speed", "variant": variant, "epochs": SPEED_EPOCHS, "target": None}
    record = runner.do(job_of(args, contestant, batch, rate, **fields))
    return record["history"][-1]["seconds"] if record else math.inf


def quickest(runner, args, contestant, batch):
    """(seconds per epoch, variant)."""
    return min(
        (seconds_per_epoch(runner, args, contestant, variant, batch), variant)
        for variant in contestant.variants
    )


def choose(runner, args, contestant):
    """The job, of the final stage, with the least expected time; None if it reaches no target."""
    best, least = None, math.inf
    for batch in args.batches:
        seconds, variant = quickest(runner, args, contestant, batch)
        job = job_of(args, contestant, batch, math.nan)
        for record in tune(runner, job, tasks.TASKS[args.task].rates, least / seconds)[:1]:
            if epochs_to_target(record) * seconds < least:
                least = epochs_to_target(record) * seconds
                fields = {"stage": "final", "variant": variant}
                best = job_of(args, contestant, batch, record["job"]["rate"], **fields)
    return best


def warn_if_busy():
    load = os.getloadavg()[0]
    if load > 0.5:
        log(f"Warning: the load is {load:.1f}; only an idle machine gives times to trust.")


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
    """The name for tables."""
    return next(
        c.name for c in CONTESTANTS.values() if (c.side, c.sync) == (job["side"], job["sync"])
    )


def by_choice(records):
    """The final runs of each (contestant's name, batch, rate), contestants in their order. A side
    whose tuning found a better choice later has several."""
    names = [c.name for c in CONTESTANTS.values()]
    choices = {}
    for record in records:
        job = record["job"]
        choices.setdefault((contestant_of(job), job["batch"], job["rate"]), []).append(record)
    return dict(sorted(choices.items(), key=lambda item: (names.index(item[0][0]), item[0][1:])))


def median_seconds(records):
    """Infinity counts: a side that misses the target with most seeds has no time."""
    return statistics.median(map(seconds_to_target, records))
