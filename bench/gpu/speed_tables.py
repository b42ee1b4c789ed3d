"""What the stage speed has measured, as tables."""

from bench import table
from bench.gpu.jobs import fields_of
from bench.gpu.order import ALONE, TUNED
from bench.learning.results import select

PEERS = ("pytorch", "jax")
# What is asked of the fastest number of learners, as multiples: of PyTorch as it comes, of the best
# single process, of one learner.
ASKED = {"lenet": (4, 1.5, 2), "resnet-32": (4, 1.5, 2), "vgg-16": (None, 1.2, None)}
HEADER = [
    *("net", "batch", "precision", "learners, best (k)", "one learner", "PyTorch, eager"),
    *("PyTorch, captured", "best process (way)", "to eager", "to captured", "to best"),
    *("to one learner", "asked: eager, best, one"),
]


def best(rates, *sides):
    """(rate, variant), or None."""
    found = [(rate, variant) for (side, variant), rate in rates.items() if side in sides]
    return max(found, default=None)


def rounded(rate):
    return f"{rate:,.0f}" if rate else "–"


def row(case, rates):
    ours, peer = best(rates, "crossbow"), best(rates, *PEERS)
    one = rates.get(ALONE)
    eager, captured = rates.get(("pytorch", "eager")), rates.get(("pytorch", "captured"))

    def shown(found):
        return f"{found[0]:,.0f} ({found[1]})" if found else "–"

    def times(other):
        return f"{ours[0] / other:.2f}×" if ours and other else "–"

    asked = ASKED.get(case["model"], (None, 1.2, None))
    return [
        *case.values(),
        *(shown(ours), rounded(one), rounded(eager), rounded(captured), shown(peer)),
        *map(times, (eager, captured, peer and peer[0], one)),
        ", ".join(f"{a}×" if a else "–" for a in asked),
    ]


def over_learners(by_case):
    ours = {v for rates in by_case.values() for side, v in rates if side == "crossbow"}
    counts = sorted((v for v in ours if v.isdigit()), key=int)
    rows = []
    for case, rates in by_case.items():
        found = {v: rate for (side, v), rate in rates.items() if side == "crossbow"}
        tuned = next((f"{rate:,.0f} ({v})" for v, rate in found.items() if not v.isdigit()), "–")
        shown = (rounded(found.get(k)) for k in counts)
        rows.append([*(value for _, value in case), *shown, tuned])
    return table(["net", "batch", "precision", *counts, "tuned"], rows)


def tables(results):
    by_case, failures = {}, []
    for record in select(results.lines.values(), stage="speed"):
        case = fields_of(record)
        if "failure" in record:
            failures.append(f"- {' '.join(map(str, case.values()))}: {record['failure']}")
            continue
        side, variant = case.pop("side"), case.pop("variant")
        if (side, variant) == TUNED:
            variant += f": {record['learners']}"
        rates = by_case.setdefault(tuple(case.items()), {})
        rates[side, variant] = record["images_per_second"]
    if by_case:
        # Of the large batches only one learner's figure is there, for the comparison with several.
        rows = [row(dict(c), rates) for c, rates in by_case.items() if {*rates} != {ALONE}]
        yield "## Training steps, images/s\n\n" + table(HEADER, rows)
        yield "By the number of learners:\n\n" + over_learners(by_case)
    if failures:
        yield "Without a figure:\n\n" + "\n".join(failures) + "\n"
