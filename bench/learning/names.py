"""Accuracy of k learners on the digits that the program draws, by every algorithm's name alone: the
recipe, the rates and all that an algorithm has are the program's own."""

import itertools

from bench.cluster import faults
from bench.learning import tasks

LEARNERS = [1, 2, 4, 8]
OF_ONE_PROCESS = ("hogwild", "elastic-gossip")
ALGORITHMS = [*faults.ALGORITHMS, *OF_ONE_PROCESS]


def run(runner, args):
    task = tasks.TASKS[args.task]
    for seed, sync, k in itertools.product(range(1, args.seeds + 1), args.algorithms, args.learners):
        runner.do(
            tasks.Job(
                *(task.name, "names", "crossbow", "", tasks.SMALLEST_BATCH, None),
                *(task.epochs, None, seed),
                learners=k,
                sync=sync,
            )
        )
