#!/usr/bin/env python3
"""Draws learning curves as an SVG, and prints their final accuracies as a Markdown table.

usage: curves.py OUT.svg TITLE SIDE=FILE,FILE,... SIDE=FILE,...

Each file is one seed: what `crossbow train --json` printed, or learn_torch.py's JSON lines.
"""

import json
import pathlib
import statistics
import sys

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 40, 44
COLOURS = ["#0b6e4f", "#d1495b", "#30638e", "#edae49"]


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

    def x(epoch):
        return LEFT + (epoch - 1) / max(1, epochs - 1) * (WIDTH - LEFT - RIGHT)

    def y(accuracy):
        return TOP + (high - accuracy) / (high - low) * (HEIGHT - TOP - BOTTOM)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{title}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">epoch</text>',
    ]
    for i in range(round((high - low) / 0.05) + 1):
        level = low + 0.05 * i
        out.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(level):.1f}" y2="{y(level):.1f}" '
            'stroke="#ddd"/>'
            f'<text x="{LEFT - 6}" y="{y(level) + 4:.1f}" text-anchor="end">{level * 100:.0f} %</text>'
        )
    for epoch in range(1, epochs + 1):
        out.append(
            f'<text x="{x(epoch):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{epoch}</text>'
        )
    for i, (name, side) in enumerate(sides.items()):
        colour = COLOURS[i % len(COLOURS)]
        for curve in side:
            points = " ".join(f"{x(e):.1f},{y(a):.1f}" for e, a in enumerate(curve, 1))
            out.append(
                f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
            )
        out.append(
            f'<text x="{WIDTH - RIGHT - 8}" y="{HEIGHT - BOTTOM - 12 - 18 * i}" '
            f'text-anchor="end" fill="{colour}">{name}, {len(side)} seeds</text>'
        )
    return "\n".join([*out, "</svg>", ""])


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
