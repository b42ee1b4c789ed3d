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


def rows_a_second(record):
    """Of the whole run: what follows the last window counts too."""
    return record["rows"] / record["train_seconds"]


def seconds_to(record, loss):
    return next((seconds for seconds, found in curve(record) if found <= loss), math.inf)


def best_of(runs):
    """The runs of the side and the rate whose least loss with seed 1 is the smallest."""

    def merit(of_rate):
        first = next(run for run in of_rate if run["job"]["seed"] == 1)
        return curve(first)[-1][1] if first["history"] else math.inf

    return min(group(runs, lambda job: (job["side"], job["rate"])).values(), key=merit)


def seconds_text(runs, loss):
    seconds = statistics.median(seconds_to(r, loss) for r in runs)
    return f"{seconds:.1f}" if seconds < math.inf else "–"


def over_epochs(record, epoch_rows):
    """As curve(), over epochs instead of seconds."""
    ends = itertools.accumulate(window["rows"] for window in record["history"])
    return [(rows / epoch_rows, loss) for rows, (_, loss) in zip(ends, curve(record))]


def draw(path, title, x_label, curves):
    """The picture of losses by side, at its upper edge where they are among the largest 5 %."""
    longest = max(points[-1][0] for points in curves.values())
    values = [loss for points in curves.values() for _, loss in points]
    low, high = min(values), sorted(values)[int(0.95 * (len(values) - 1))]
    high = max(high, low + 1e-3)  # all may be alike
    picture = chart.Chart(title, x_label, (0, longest), (low, high))
    for i in range(5):
        picture.level(low + (high - low) * i / 4, f"{low + (high - low) * i / 4:.3f}")
        picture.tick(longest * i / 4, f"{longest * i / 4:.3g}")
    for number, (side, points) in enumerate(curves.items()):
        colour = chart.colour(number)
        picture.line([(x, min(y, high)) for x, y in points], colour)
        picture.legend(len(curves) - number, side, colour)
    path.write_text(picture.text(), encoding="utf-8")
    log(f"wrote {path}")


def plot(records, folder, name_of=str):
    """Pictures of each data set, over seconds and over epochs, of the best rates with seed 1; of
    sides that share a name, of the best one."""
    for data, of_data in group(records, lambda job: job["data"]).items():
        sides = group(of_data, lambda job: name_of(job["side"]))
        best = {side: best_of(of)[0] for side, of in sides.items()}
        best = {side: record for side, record in best.items() if record["history"]}
        name = data.partition(".")[0]
        title = f"{name}: training loss"
        seconds = {side: curve(record) for side, record in best.items()}
        draw(folder / f"{name}-hogbatch.svg", title, "seconds of training", seconds)
        # A side that ends no epoch knows an epoch's rows from those that do.
        epoch_rows = next((r["epoch_rows"] for r in of_data if r.get("epoch_rows")), None)
        with_rows = {s: r for s, r in best.items() if all("rows" in w for w in r["history"])}
        if with_rows and epoch_rows:
            epochs = {side: over_epochs(r, epoch_rows) for side, r in with_rows.items()}
            draw(folder / f"{name}-hogbatch-epochs.svg", title, "epochs", epochs)
