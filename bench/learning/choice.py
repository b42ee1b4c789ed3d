"""What --learners auto chooses, in time to accuracy beside fixed numbers of learners."""

from bench.learning import defaults, tasks

ARRANGEMENTS = ["auto", 1, 2, 3, 4]


def run(runner, args):
    """Seed by seed, the arrangements in turn, on a machine that does nothing else."""
    task = tasks.TASKS[args.task]
    for seed in range(1, args.seeds + 1):
        for learners in args.learners:
            job = tasks.Job(
                *(task.name, "choice", "crossbow", "", tasks.SMALLEST_BATCH, defaults.RATE),
                *(tasks.EFFICIENCY_EPOCHS, args.target, seed, learners, "sma"),
            )
            runner.do(job)
