"""Finds the learning rate with which a way to train needs fewest epochs."""

import dataclasses
import math

from bench.learning.results import best_accuracy, epochs_to_target

LAG = 0.1  # of accuracy behind the best run so far at the same epoch, with which a run is given up
FIRST_EPOCHS = 2  # that every run is given


def order(rates):
    """From the middle up, then from the middle down."""
    middle = len(rates) // 2
    return [*rates[middle:], *reversed(rates[:middle])]


def lags(history, others):
    """Whether the run is far behind the best of the others at its last epoch."""
    last = len(history) - 1
    level = max((o[last]["test_accuracy"] for o in others if len(o) > last), default=0.0)
    return last + 1 >= FIRST_EPOCHS and history[last]["test_accuracy"] < level - LAG


def tune(runner, job, rates, most=math.inf):
    """The records that reached the target within `most` epochs, best first: fewest epochs, then the
    highest accuracy. Runs that fall behind or need more epochs than the best so far are cut; rates
    above one that diverged are skipped."""
    records, too_high = [], math.inf
    for rate in order(rates):
        if rate >= too_high:
            continue
        fewest = min([job.epochs, most, *map(epochs_to_target, records)])
        histories = [record["history"] for record in records]
        record = runner.do(
            dataclasses.replace(job, rate=rate, stop_after=max(FIRST_EPOCHS, int(fewest))),
            lambda history: lags(history, histories),
        )
        if record and record["outcome"] == "diverged":
            too_high = rate
        elif record:
            records.append(record)
    reached = [record for record in records if epochs_to_target(record) <= most]
    return sorted(reached, key=lambda r: (epochs_to_target(r), -best_accuracy(r)))
