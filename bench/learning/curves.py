"""Draws learning curves as an SVG, and prints their final accuracies as a Markdown table.

usage: python3 -m bench.learning.curves OUT.svg TITLE SIDE=FILE,FILE,... SIDE=FILE,...

Each file is one seed: what `crossbow train --json` printed, or torch_learner.py's JSON lines.
"""

import json
import pathlib
import statistics
import sys

from bench import table
from bench.chart import Chart, colour


def read(path):
    """Test accuracy by epoch."""
    text = pathlib.Path(path).read_text()
    lines = [json.loads(line) for line in text.splitlines() if line.strip()]
    history = lines[0]["history"] if "history" in lines[0] else lines
    return [record["test_accuracy"] for record in history]


def draw(title, sides):
    curves = [curve for side in sides.values() for curve in side]
    epochs, step = max(len(curve) for curve in curves), 0.05
    low, high = (int(f(map(f, curves)) / step) * step for f in (min, max))
    picture = Chart(title, "epoch", (1, epochs), (low, high + step))
    for i in range(round((high - low) / step) + 2):
        picture.level(low + step * i, f"{(low + step * i) * 100:.0f} %")
    for epoch in range(1, epochs + 1):
        picture.tick(epoch, epoch)
    for i, (name, side) in enumerate(sides.items()):
        for curve in side:
            picture.line(enumerate(curve, 1), colour(i))
        picture.legend(i, f"{name}, {len(side)} seeds", colour(i))
    return picture.text()


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sides = {}
    for argument in sys.argv[3:]:
        name, _, files = argument.partition("=")
        sides[name] = [read(path) for path in files.split(",")]
    pathlib.Path(sys.argv[1]).write_text(draw(sys.argv[2], sides))
    rows = []
    for name, side in sides.items():
        last = [100 * curve[-1] for curve in side]
        seeds = ", ".join(f"{value:.2f}" for value in last)
        rows.append([name, seeds, f"{statistics.mean(last):.2f} %"])
    print(table(["", "test accuracy after the last epoch, by seed", "mean"], rows), end="")


if __name__ == "__main__":
    main()
