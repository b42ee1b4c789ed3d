"""What is learnt: the tasks, their grids and limits, and one training job of a side."""

import dataclasses

BATCHES = [16, 64, 256]
SMALLEST_BATCH = 16  # of each learner, in the efficiency tables
TIMED_STAGES = ("speed", "final", "choice")
RULED_STAGES = ("defaults", "choice")  # where the rate follows from the number of learners
EFFICIENCY_EPOCHS = 12
CHANCE = 0.1  # test accuracy of a guess, in both tasks
DIVERGED_EPOCHS = 2  # in a row hardly above chance: one alone may be batch norm settling


@dataclasses.dataclass(frozen=True)
class Task:
    name: str
    model: str
    data: str  # how --data of `crossbow train` names such a folder, or what it draws itself
    target: float | None  # test accuracy
    rates: tuple  # ascending
    epochs: int  # limit of the accuracy stages
    seeds: int
    options: tuple = ()  # of `crossbow train`, for the augmentation
    efficiency_options: tuple = ()  # further ones, where epochs of k learners are counted
    large_epochs: int = 12  # where k learners are compared with one large batch
    large_options: tuple = ()
    large_powers: tuple = (0.5, 0.75, 1)  # the rates there: one learner's times k to each of these powers
    torch_learner: str = "torch_learner"  # the module that trains it with PyTorch


TASKS = {
    "mnist": Task(
        *("mnist", "lenet", "mnist", 0.99, (0.003, 0.01, 0.03, 0.1, 0.3), 10, 5),
        large_epochs=5,
        large_options=("--warmup", "1"),
    ),
    "cifar": Task(
        *("cifar", "resnet-20", "imagefolder", 0.78, (0.01, 0.02, 0.05, 0.1, 0.2), 12, 3),
        options=("--pad", "4", "--mirror"),
        efficiency_options=("--warmup", "2", "--bn-images", "2048"),
        large_epochs=8,
        # In bf16 a run takes two thirds of the time.
        large_options=("--warmup", "2", "--bn-images", "2048", "--precision", "bf16"),
    ),
    "cifar-lenet": Task(
        *("cifar-lenet", "lenet", "imagefolder", 0.6, (0.003, 0.01, 0.03, 0.1, 0.3), 12, 3),
        options=("--pad", "4", "--mirror"),
        large_epochs=6,
        large_options=("--warmup", "1"),
        large_powers=(0, 0.25, 0.5),  # without batch norm larger rates diverge
    ),
    "digits": Task(*("digits", "lenet", "digits", None, (), 3, 1)),
    "pictures": Task(
        *("pictures", "resnet-18", "imagenet", None, (), 3, 3),
        options=("--image-size", "64", "--crop", "resized", "--mirror"),
        torch_learner="torch_pictures",
    ),
}


@dataclasses.dataclass(frozen=True)
class Job:
    """One training run. All fields but `stop_after` are its key in the results."""

    task: str
    stage: str  # tune, speed, final, efficiency, defaults, large, choice, names or pictures
    side: str  # crossbow, pytorch or jax
    variant: str  # the way to run the side
    batch: int  # of each learner
    rate: float | None  # None: crossbow's own
    epochs: int  # limit
    target: float | None
    seed: int = 1
    learners: int | str = 1  # or auto
    sync: str = "none"
    options: tuple = ()  # further ones of the side's command, alternately name and value
    stop_after: int = dataclasses.field(default=0, compare=False)  # epochs; 0: the limit

    def key(self):
        fields = dataclasses.asdict(self)
        del fields["stop_after"]
        return {**fields, "options": list(self.options)}

    def __str__(self):
        parts = [self.stage, self.task, self.side, self.variant, f"batch {self.batch}"]
        if self.side == "crossbow":
            parts.append(f"{self.learners} × {self.sync}")
        rate = "its own rate" if self.rate is None else f"rate {self.rate:g}"
        return " ".join([*parts, *self.options, rate, f"seed {self.seed}"])


def diverged(history):
    """Whether a run has lost its way, so that more epochs are no use."""
    last = history[-DIVERGED_EPOCHS:]
    return len(last) == DIVERGED_EPOCHS and all(
        epoch["test_accuracy"] < 1.5 * CHANCE for epoch in last
    )
