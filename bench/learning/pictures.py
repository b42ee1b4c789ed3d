"""Whether a net for ImageNet learns from encoded pictures as with PyTorch on the same transforms, and
whether an order that keeps neighbours together costs accuracy where the pictures lie class by class."""

from bench.learning import tasks

RATE = 0.00625  # the recipe's
WAYS = {
    "crossbow": ("crossbow", "", ()),
    "crossbow-blocks": ("crossbow", "", ("--shuffle-block", "64")),
    "pytorch": ("pytorch", "eager", ()),
}


def run(runner, args):
    task = tasks.TASKS[args.task]
    for seed in range(1, args.seeds + 1):
        for way in args.ways:
            side, variant, options = WAYS[way]
            runner.do(
                tasks.Job(
                    *(task.name, "pictures", side, variant, tasks.SMALLEST_BATCH, RATE),
                    *(task.epochs, None, seed),
                    options=options,
                )
            )
