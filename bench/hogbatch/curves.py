"""What runs on rows of numbers came to: losses over training, and the best rate."""

import itertools
import math
import statistics

from bench import chart, log
from bench.learning.results import group


def text_of(record):
    if not record["history"]:
        return record.get("failure", "no loss was told")
    seconds, least = curve(record)[-1]
    return f"{record['rows']:,} rows in {seconds:.1f} s, least loss {least:.4f}"


def curve(record):
    """Of (seconds, least training loss so far), each the mean over a window's steps."""
    points, seconds, least = [], 0.0, math.inf
    for window in record["history"]:
        seconds += window["seconds"]
        least = min(least, window["train_loss"])
        points.append((seconds, least))
    return points


def least_of(record):
    """Infinite for a run that has told no loss."""
    return curve(record)[-1][1] if record["history"] else math.inf


def rows_a_second(record):
    """Of the whole run: what follows the last window counts too."""
    return record["rows"] / record["train_seconds"]


def seconds_to(record, loss):
    return next((seconds for seconds, found in curve(record) if found <= loss), math.inf)


def best_of(runs):
    """The runs of the side and the rate whose least loss with seed 1 is the smallest."""

    def merit(of_rate):
        first = next(run for run in of_rate if run["job"]["seed"] == 1)
        return least_of(first)

    return min(group(runs, lambda job: (job["side"], job["rate"])).values(), key=merit)


def seconds_text(runs, loss):
    seconds = statistics.median(seconds_to(r, loss) for r in runs)
    return f"{seconds:.1f}" if seconds < math.inf else "–"


def over_epochs(record, epoch_rows):
    """As curve(), over epochs instead of seconds."""
    ends = itertools.accumulate(window["rows"] for window in record["history"])
    return [(rows / epoch_rows, loss) for rows, (_, loss) in zip(ends, curve(record))]


def epoch_rows_of(records):
    """A side that ends no epoch knows an epoch's rows from those that do; None if none does."""
    return next((r["epoch_rows"] for r in records if r.get("epoch_rows")), None)


def draw(path, title, x_label, curves, levels):
    """Lines with their names; `levels` has texts by heights, of which the first is at the lower edge
    and the last at the upper one, where a line stays that goes beyond."""
    longest = max(points[-1][0] for points in curves.values())
    low, high = min(levels), max(levels)
    picture = chart.Chart(title, x_label, (0, longest), (low, high))
    for height, text in levels.items():
        picture.level(height, text)
    for i in range(5):
        picture.tick(longest * i / 4, f"{longest * i / 4:.3g}")
    for number, (name, points) in enumerate(curves.items()):
        picture.line([(x, min(y, high)) for x, y in points], chart.colour(number))
        picture.legend(len(curves) - number, name, chart.colour(number))
    path.write_text(picture.text(), encoding="utf-8")
    log(f"wrote {path}")


def loss_levels(curves):
    """Five, up to the losses that are among the largest 5 %."""
    values = sorted(loss for points in curves.values() for _, loss in points)
    low, high = values[0], values[int(0.95 * (len(values) - 1))]
    step = max(high - low, 1e-3) / 4  # all may be alike
    return {low + step * i: f"{low + step * i:.3f}" for i in range(5)}


def plot(records, folder, name_of=str):
    """Pictures of each data set, over seconds and over epochs, of the best rates with seed 1; of
    sides that share a name, of the best one."""
    for data, of_data in group(records, lambda job: job["data"]).items():
        sides = group(of_data, lambda job: name_of(job["side"]))
        best = {side: best_of(of)[0] for side, of in sides.items()}
        best = {side: record for side, record in best.items() if record["history"]}
        name = data.partition(".")[0]
        title = f"{name}: training loss"
        found = {side: curve(record) for side, record in best.items()}
        path = folder / f"{name}-hogbatch.svg"
        draw(path, title, "seconds of training", found, loss_levels(found))
        rows = epoch_rows_of(of_data)
        known = {s: r for s, r in best.items() if rows and all("rows" in w for w in r["history"])}
        if known:
            found = {side: over_epochs(record, rows) for side, record in known.items()}
            path = folder / f"{name}-hogbatch-epochs.svg"
            draw(path, title, "epochs", found, loss_levels(found))
