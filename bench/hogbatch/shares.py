"""What the workers of a run did over time: their shares of updates and rows, and of busy time."""

from bench import chart, log
from bench.hogbatch.curves import best_of
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


def plot_shares(records, folder, name_of):
    """A picture of each data set and algorithm with two workers, of the best batches and rate with
    seed 1, if it has ended enough epochs to draw."""
    shown = [r for r in records if r["history"] and len(r.get("workers") or []) == 2]
    sides = group(shown, lambda job: (job["data"], name_of(job["side"])))
    for (data, side), runs in sides.items():
        record = best_of(runs)[0]
        if len(record["by_epoch"]) < EPOCHS_SHOWN:
            continue
        found = curves(record)
        name = data.partition(".")[0]
        longest = max(points[-1][0] for points in found.values())
        title = f"{name}, {side}: shares by epoch"
        picture = chart.Chart(title, "seconds of training", (0, longest), (0, 1))
        for i in range(5):
            picture.level(i / 4, f"{i / 4:.2f}")
            picture.tick(longest * i / 4, f"{longest * i / 4:.0f}")
        for number, (text, points) in enumerate(found.items()):
            picture.line(points, chart.colour(number))
            picture.legend(len(found) - number, text, chart.colour(number))
        path = folder / f"{name}-{side.replace(' ', '-')}-shares.svg"
        path.write_text(picture.text(), encoding="utf-8")
        log(f"wrote {path}")
