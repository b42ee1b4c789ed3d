"""Finds the learning rate with which a way to train needs fewest epochs."""

import dataclasses
import math

from bench.learning.results import by_merit, epochs_to_target

LAG = 0.1  # of accuracy behind the best run so far at the same epoch, with which a run is given up
FIRST_EPOCHS = 2  # that every run is given


def order(rates):
    """From the middle up, then from the middle down."""
    middle = len(rates) // 2
    return [*rates[middle:], *reversed(rates[:middle])]


def lags(history, others, first_epochs=FIRST_EPOCHS):
    """Whether the run is far behind the best of the others at its last epoch."""
    last = len(history) - 1
    level = max((o[last]["test_accuracy"] for o in others if len(o) > last), default=0.0)
    return last + 1 >= first_epochs and history[last]["test_accuracy"] < level - LAG


def tune(runner, job, rates, most=math.inf):
    """The records that reached the target within `most` epochs, best first. Runs that fall behind
    or need more epochs than the best so far are cut; rates above one that diverged are skipped."""
    records, too_high = [], math.inf
    for rate in order(rates):
        if rate >= too_high:
            continue
        fewest = min([job.epochs, most, *map(epochs_to_target, records)])
        histories = [record["history"] for record in records]
        trial = dataclasses.replace(job, rate=rate, stop_after=max(FIRST_EPOCHS, int(fewest)))
        record = runner.do(trial, lambda history: lags(history, histories))
        if record and record["outcome"] == "diverged":
            too_high = rate
        elif record:
            records.append(record)
    return sorted((r for r in records if epochs_to_target(r) <= most), key=by_merit)
