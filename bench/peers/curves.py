#!/usr/bin/env python3
"""Draws learning curves as an SVG, and prints their final accuracies as a Markdown table.

usage: curves.py OUT.svg TITLE SIDE=FILE,FILE,... SIDE=FILE,...

Each file is one seed: what `crossbow train --json` printed, or learn_torch.py's JSON lines.
"""

import json
import pathlib
import statistics
import sys

import svg


def read(path):
    """Test accuracy by epoch."""
    text = pathlib.Path(path).read_text()
    lines = [json.loads(line) for line in text.splitlines() if line.strip()]
    history = lines[0]["history"] if "history" in lines[0] else lines
    return [record["test_accuracy"] for record in history]


def nice_floor(value, step=0.05):
    return int(value / step) * step


def draw(title, sides):
    curves = [curve for side in sides.values() for curve in side]
    epochs = max(len(curve) for curve in curves)
    low, high = nice_floor(min(map(min, curves))), nice_floor(max(map(max, curves))) + 0.05

    chart = svg.Chart(title, "epoch", (1, epochs), (low, high))
    for i in range(round((high - low) / 0.05) + 1):
        level = low + 0.05 * i
        chart.level(level, f"{level * 100:.0f} %")
    for epoch in range(1, epochs + 1):
        chart.tick(epoch, epoch)
    for i, (name, side) in enumerate(sides.items()):
        colour = svg.COLOURS[i % len(svg.COLOURS)]
        for curve in side:
            chart.line(enumerate(curve, 1), colour)
        chart.legend(i, f"{name}, {len(side)} seeds", colour)
    return chart.text()


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sides = {}
    for argument in sys.argv[3:]:
        name, _, files = argument.partition("=")
        sides[name] = [read(path) for path in files.split(",")]
    pathlib.Path(sys.argv[1]).write_text(draw(sys.argv[2], sides))
    print("| | test accuracy after the last epoch, by seed | mean |\n|---|---|---|")
    for name, side in sides.items():
        last = [100 * curve[-1] for curve in side]
        seeds = ", ".join(f"{value:.2f}" for value in last)
        print(f"| {name} | {seeds} | {statistics.mean(last):.2f} % |")


if __name__ == "__main__":
    main()
