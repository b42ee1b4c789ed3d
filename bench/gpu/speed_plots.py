"""Images a second over the number of learners, beside one learner whose batch is as large as theirs
together: a picture of each net, precision and batch.

    python3 -m bench.gpu.speed_plots docs/gpu.jsonl docs
"""

import math
import pathlib
import sys

from bench import log
from bench.chart import Chart, colour
from bench.learning.plots import step_of
from bench.learning.results import Results

FEWEST = 4  # numbers of learners of a picture
PICTURE = ("model", "precision", "batch")
APART = ("version", "data", "again")  # in docs/gpu.jsonl: records that are not of one measurement


def by_case(records):
    """Of Crossbow, {learners: images a second} by case."""
    cases = {}
    for record in records:
        job, rate = record["job"], record.get("images_per_second")
        if not rate or job.get("stage", "speed") != "speed" or job["side"] != "crossbow":
            continue
        if job["variant"].isdigit():
            case = tuple(job.get(key) for key in (*PICTURE, *APART))
            cases.setdefault(case, {})[int(job["variant"])] = rate
    return cases


def draw(title, lines):
    rates = [rate for line in lines.values() for rate in line.values()]
    step = step_of(max(rates), 8)
    levels = math.ceil(max(rates) / step)
    learners = sorted(next(iter(lines.values())))
    chart = Chart(title, "k", (-0.2, math.log2(learners[-1]) + 0.2), (0, levels * step))
    for i in range(levels + 1):
        chart.level(i * step, f"{i * step / 1000:g} k")
    for k in learners:
        chart.tick(math.log2(k), k)
    for i, (name, line) in enumerate(lines.items()):
        points = [(math.log2(k), line[k]) for k in sorted(line)]
        chart.line(points, colour(i))
        for x, y in points:
            chart.dot(x, y, colour(i))
        chart.legend(len(lines) - 1 - i, name, colour(i))
    return chart.text()


def plot(records, folder):
    """Of several versions the newest of those that have the most numbers of learners."""
    cases = by_case(records)
    pictures = {}
    for case, rates in cases.items():
        model, precision, batch, version, *_ = case
        wide = {k: cases.get((model, precision, batch * k, *case[3:]), {}).get(1) for k in rates}
        wide = {k: rate for k, rate in wide.items() if rate}
        lines = {f"k learners, batch {batch} each": rates}
        if len(wide) > 1:
            lines[f"one learner, batch {batch} · k"] = wide
        title = f"{model}, {precision}: images/s" + (f", version {version}" if version else "")
        name = f"{model}-{precision}-batch-{batch}-learners.svg"
        found = pictures.get(name, (FEWEST,))
        if len(rates) >= found[0]:
            pictures[name] = len(rates), title, lines
    for name, (_, title, lines) in pictures.items():
        (folder / name).write_text(draw(title, lines), encoding="utf-8")
        log(f"wrote {folder / name}")


if __name__ == "__main__":
    plot(Results(pathlib.Path(sys.argv[1])).lines.values(), pathlib.Path(sys.argv[2]))
