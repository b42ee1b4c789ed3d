"""Epochs to the target accuracy of k learners, where their number is the only option that differs;
or also their algorithm, or the rule by which the rate follows from their number."""

from bench.learning import tasks

RATE = 0.01  # the best of one learner, in both tasks
SYNC = "sma"  # unless asked


def jobs(args, stage, sync=SYNC, options=()):
    """Seed by seed, so that a table of all numbers of learners is there early."""
    for seed in range(1, args.seeds + 1):
        for learners in args.learners:
            yield tasks.Job(
                *(args.task, stage, "crossbow", "", tasks.SMALLEST_BATCH, RATE),
                *(tasks.EFFICIENCY_EPOCHS, args.target, seed, learners, sync),
                options=options,
            )


def run(runner, args):
    options = ("--lr-scaling", args.lr_scaling) if args.lr_scaling else ()
    for job in jobs(args, "defaults", args.sync, options):
        runner.do(job)
