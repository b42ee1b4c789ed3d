"""The plots: epochs to the target by number of learners, accuracy over training time by side."""

import math
import statistics

from bench.chart import Chart, colour
from bench.learning import accuracy, efficiency, tasks
from bench.learning.results import epochs_to_target, select


def step_of(length, most):
    """A round step that divides `length` into at most `most` parts."""
    power = 10 ** math.floor(math.log10(length / most))
    return next(power * n for n in (1, 2, 5, 10) if power * n * most >= length)


def points_of(record):
    """(seconds of training so far, test accuracy) by epoch."""
    seconds = 0.0
    for epoch in record["history"]:
        seconds += epoch["seconds"]
        yield seconds, epoch["test_accuracy"]


def accuracy_over_time(title, target, records):
    """All seeds as thin lines, and a dot where the median seed reaches the target."""
    points = [point for record in records for point in points_of(record)]
    accuracies = [a for _, a in points]
    step = step_of(max(max(accuracies), target) - min(accuracies) or 0.01, 6)
    bottom = math.floor(min(accuracies) / step) * step
    levels = math.ceil(round((max(max(accuracies), target) - bottom) / step, 6))
    times, heights = (0, max(s for s, _ in points) * 1.02), (bottom, bottom + levels * step)
    chart = Chart(f"{title}, test accuracy", "seconds of training", times, heights)
    for i in range(levels + 1):
        level = bottom + i * step
        chart.level(level, f"{100 * level:.{0 if step >= 0.01 else 1}f} %")
    seconds_step = step_of(chart.x_range[1], 8)
    for i in range(int(chart.x_range[1] / seconds_step) + 1):
        chart.tick(i * seconds_step, f"{i * seconds_step:g}")
    chart.line([(0, target), (chart.x_range[1], target)], "#888", 1)
    for i, ((name, batch, _), runs) in enumerate(accuracy.by_choice(records).items()):
        for record in runs:
            chart.line(points_of(record), colour(i), 1, 0.6)
        median = accuracy.median_seconds(runs)
        text = f"{name}, batch {batch}: not reached"
        if math.isfinite(median):
            text = f"{name}, batch {batch}: {median:.0f} s"
            chart.dot(median, target, colour(i))
        chart.legend(i, text, colour(i))
    return chart.text()


def noise_by_epoch(title, records):
    """The noise scale of several learners by default with the first seed, the longest run of each
    number, on a logarithmic axis; None where none was measured."""
    lines = {}
    for record in select(records, seed=1, sync="sma", options=[]):
        job = record["job"]
        points = [(e["epoch"], e["noise_scale"]) for e in record["history"] if e.get("noise_scale")]
        if job["learners"] > 1 and len(points) > len(lines.get(job["learners"], [])):
            lines[job["learners"]] = points
    if not lines:
        return None
    values = [phi for points in lines.values() for _, phi in points]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    last = max(epoch for points in lines.values() for epoch, _ in points)
    title = f"{title}: gradient noise scale in images"
    chart = Chart(title, "epoch", (0.8, last + 0.2), (low, max(high, low + 1)))
    for power in range(low, max(high, low + 1) + 1):
        chart.level(power, f"{10**power:,}" if power < 6 else f"{10 ** (power - 6):,} M")
    for epoch in range(1, last + 1):
        chart.tick(epoch, epoch)
    for i, (learners, points) in enumerate(sorted(lines.items())):
        at = [(epoch, math.log10(phi)) for epoch, phi in points]
        chart.line(at, colour(i))
        for x, y in at:
            chart.dot(x, y, colour(i))
        chart.legend(i, f"k = {learners}", colour(i))
    return chart.text()


def epochs_by_learners(title, target, records):
    """The median of the seeds, at the best of each algorithm's rates; None without many learners.
    What missed the target has no point."""
    lines = {}
    for (algorithm, k), at_rate in efficiency.at_rates(records, efficiency.best_rate).items():
        epochs = statistics.median(map(epochs_to_target, at_rate)) if at_rate else math.inf
        if math.isfinite(epochs):
            lines.setdefault(algorithm, {})[k] = epochs
    alone = lines.pop("none", {})
    if not lines:
        return None
    learners = sorted({r["job"]["learners"] for r in records})
    most = max(epochs for best in lines.values() for epochs in best.values()) + 1
    title = f"{title}: epochs to {target:.1%}, batch {tasks.SMALLEST_BATCH} a learner"
    chart = Chart(title, "learners", (-0.3, math.log2(max(learners)) + 0.9), (0, most))
    for epochs in range(0, int(most) + 1, max(1, int(step_of(most, 12)))):
        chart.level(epochs, epochs)
    for k in learners:
        chart.tick(math.log2(k), k)
    order = [name for name in (*efficiency.ALGORITHMS, *sorted(lines)) if name in lines]
    for i, name in enumerate(dict.fromkeys(order)):
        # Equal epochs would hide each other: each algorithm stands a little beside the others.
        shift = 0.06 * (i - (len(lines) - 1) / 2)
        points = sorted((math.log2(k), epochs) for k, epochs in {**alone, **lines[name]}.items())
        points = [(x + shift, y) for x, y in points]
        chart.line(points, colour(i))
        for x, y in points:
            chart.dot(x, y, colour(i))
        chart.legend(i, name, colour(i))
    return chart.text()
