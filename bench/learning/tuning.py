"""Finds the learning rate with which a way to train needs fewest epochs."""

import dataclasses

from results import best_accuracy, epochs_to_target

SLACK = 2  # epochs beyond the best so far after which a run is cut


def order(rates):
    """From the middle up, then from the middle down."""
    middle = len(rates) // 2
    return [*rates[middle:], *reversed(rates[:middle])]


def tune(runner, job, rates):
    """The records that reached the target, best first: fewest epochs, then the highest accuracy.
    Rates above one that diverged are skipped."""
    reached, too_high = [], float("inf")
    for rate in order(rates):
        if rate >= too_high:
            continue
        fewest = min(map(epochs_to_target, reached), default=job.epochs)
        record = runner.do(
            dataclasses.replace(job, rate=rate, stop_after=min(job.epochs, fewest + SLACK))
        )
        if record and record["outcome"] == "diverged":
            too_high = rate
        elif record and record["outcome"] == "reached":
            reached.append(record)
    return sorted(reached, key=lambda r: (epochs_to_target(r), -best_accuracy(r)))
