"""Epochs to the target accuracy of k learners, where their number is the only option that differs;
or also the rule by which the rate follows from it."""

from bench.learning import tasks

RATE = 0.01  # the best of one learner, in both tasks


def jobs(args, stage, options=()):
    """Seed by seed, so that a table of all numbers of learners is there early."""
    for seed in range(1, args.seeds + 1):
        for learners in args.learners:
            yield tasks.Job(
                *(args.task, stage, "crossbow", "", tasks.SMALLEST_BATCH, RATE),
                *(tasks.EFFICIENCY_EPOCHS, args.target, seed, learners, "sma"),
                options=options,
            )


def run(runner, args):
    options = ("--lr-scaling", args.lr_scaling) if args.lr_scaling else ()
    for job in jobs(args, "defaults", options):
        runner.do(job)
