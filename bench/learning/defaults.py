"""Epochs to the target accuracy of k learners, where their number is the only option that differs;
or also the rule by which the rate follows from it."""

from bench.learning import tasks

RATE = 0.01  # the best of one learner, in both tasks


def run(runner, args):
    """Seed by seed, so that a table of all k is there early."""
    task = tasks.TASKS[args.task]
    for seed in range(1, args.seeds + 1):
        for learners in args.learners:
            job = tasks.Job(
                *(task.name, "defaults", "crossbow", "", tasks.SMALLEST_BATCH, RATE),
                *(tasks.EFFICIENCY_EPOCHS, args.target, seed, learners, "sma"),
                options=("--lr-scaling", args.lr_scaling) if args.lr_scaling else (),
            )
            runner.do(job)
