"""What the workers of a run did over time: shares of updates, of rows and of busy time, batches."""

import math

from bench.hogbatch.curves import best_of, draw
from bench.learning.results import group

EPOCHS_SHOWN = 5  # at least
COUNTS = (("updates", "of the updates"), ("rows", "of the rows"))


def by_epoch(record):
    """(seconds, worker by worker what it did in that epoch) of each epoch; a record has sums."""
    seconds, before = 0.0, None
    for epoch in record["by_epoch"]:
        seconds, workers = seconds + epoch["seconds"], epoch["workers"]
        before = before or [{name: 0 for name, _ in COUNTS} for _ in workers]
        counts = [
            {name: now[name] - then[name] for name, _ in COUNTS}
            for now, then in zip(workers, before)
        ]
        yield seconds, counts
        before = workers


def curves(record):
    """Points of the first worker, which is live, by what they show."""
    of_epochs = list(by_epoch(record))
    found = {
        f"{of}, live": [
            (seconds, counts[0][name] / max(1, sum(c[name] for c in counts)))
            for seconds, counts in of_epochs
        ]
        for name, of in COUNTS
    }
    ends = [seconds for seconds, _ in of_epochs]
    for w, worker in enumerate(record["workers"]):
        busy = [epoch["workers"][w]["busy_fraction"] for epoch in record["by_epoch"]]
        found[f"busy so far, {worker['kind']}"] = list(zip(ends, busy))
    return found


BEGINS_AT = {"live": "batch_min", "replica": "batch_max"}  # with either algorithm


def batches(record):
    """Points of the base-2 logarithm of each worker's batch, by its kind."""
    ends = [0, *(seconds for seconds, _ in by_epoch(record))]
    found = {}
    for w, worker in enumerate(record["workers"]):
        at_ends = [epoch["workers"][w]["batch"] for epoch in record["by_epoch"]]
        sizes = [worker[BEGINS_AT[worker["kind"]]] or at_ends[0], *at_ends]
        found[worker["kind"]] = list(zip(ends, map(math.log2, sizes)))
    return found


def plot_shares(records, folder, name_of):
    """Pictures of each data set and algorithm with two workers, of the best batches and rate with
    seed 1, if it has ended enough epochs to draw."""
    shown = [r for r in records if r["history"] and len(r.get("workers") or []) == 2]
    sides = group(shown, lambda job: (job["data"], name_of(job["side"])))
    for (data, side), runs in sides.items():
        record = best_of(runs)[0]
        if len(record["by_epoch"]) < EPOCHS_SHOWN:
            continue
        name = data.partition(".")[0]
        stem, x_label = f"{name}-{side.replace(' ', '-')}", "seconds of training"
        quarters = {i / 4: f"{i / 4:.2f}" for i in range(5)}
        title = f"{name}, {side}: shares by epoch"
        draw(folder / f"{stem}-shares.svg", title, x_label, curves(record), quarters)
        if all("batch" in worker for worker in record["by_epoch"][0]["workers"]):
            most = max(worker["batch_max"] for worker in record["workers"])
            doubled = {i: str(2**i) for i in range(math.ceil(math.log2(most)) + 1)}
            title = f"{name}, {side}: batches, first and after each epoch"
            draw(folder / f"{stem}-batches.svg", title, x_label, batches(record), doubled)
