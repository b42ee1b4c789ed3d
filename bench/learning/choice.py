"""What --learners auto chooses, in time to accuracy beside fixed numbers of learners."""

from bench.learning import defaults

ARRANGEMENTS = ["auto", 1, 2, 3, 4]


def run(runner, args):
    """The arrangements in turn, on a machine that does nothing else."""
    for job in defaults.jobs(args, "choice"):
        runner.do(job)
