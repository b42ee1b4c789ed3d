"""What the stage accuracy has measured, as a table."""

import math
import statistics

from bench import table
from bench.gpu.accuracy import TARGET
from bench.gpu.jobs import fields_of
from bench.learning.results import (
    best_accuracy,
    epochs_to_target,
    group,
    seconds_to_target,
    select,
)

HEADER = [
    *("side", "batch", "rate", "epochs at most", "seeds", f"epochs to {TARGET:.0%}"),
    *("seconds of training", "median", "PyTorch's least / it", "seconds in all", "s an epoch"),
    *("best accuracy", "waiting for data, %"),
]


def listed(records, text):
    return ", ".join(map(text, records))


def number(value, digits):
    return f"{value:.{digits}f}" if value < math.inf else "–"


def epoch_seconds(records):
    """The first epochs' may be longer."""
    return statistics.median(epoch["seconds"] for r in records for epoch in r["history"])


def row(records, peer):
    job = records[0]["job"]
    name = f"Crossbow, {job['learners']} learners" if job["side"] == "crossbow" else "PyTorch"
    median = statistics.median(map(seconds_to_target, records))
    both = median < math.inf and peer < math.inf
    return [
        *(name, job["batch"], f"{job['rate']:g}", job["epochs"]),
        listed(records, lambda r: str(r["job"]["seed"])),
        listed(records, lambda r: number(epochs_to_target(r), 0)),
        listed(records, lambda r: number(seconds_to_target(r), 1)),
        *(number(median, 1), f"{peer / median:.2f}×" if both else "–"),
        listed(records, lambda r: f"{r['wall_seconds']:.1f}"),
        f"{epoch_seconds(records):.2f}",
        listed(records, lambda r: f"{best_accuracy(r):.2%}"),
        listed(
            records, lambda r: "–" if r["waiting_percent"] is None else f"{r['waiting_percent']:g}"
        ),
    ]


def tables(results):
    records = select(results.lines.values(), stage="accuracy")
    found = [record for record in records if record["history"]]
    keys = ("side", "batch", "learners", "rate", "epochs")
    cases = group(found, lambda job: tuple(job[key] for key in keys)).values()
    if cases:
        medians = [
            statistics.median(map(seconds_to_target, of))
            for of in cases
            if of[0]["job"]["side"] == "pytorch"
        ]
        rows = [row(of, min(medians, default=math.inf)) for of in cases]
        yield "## resnet-32 on CIFAR-10, bf16, rates by a cosine\n\n" + table(HEADER, rows)
    for record in records:
        if "failure" in record:
            yield f"- {' '.join(map(str, fields_of(record).values()))}: {record['failure']}\n"
