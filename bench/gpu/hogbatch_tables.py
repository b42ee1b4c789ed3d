"""What the stage hogbatch has measured, as tables: medians of seeds, at the rate that is best with
the first."""

import statistics

from bench import table
from bench.gpu.hogbatch import ALL
from bench.gpu.jobs import fields_of
from bench.hogbatch.curves import best_of, curve, epoch_rows_of, rows_a_second, seconds_text
from bench.learning.results import group, select

WORKERS = ("worker", "updates", "rows", "batches", "busy")


def best_runs(records):
    """Of each side the runs at the better rate."""
    by_side = group(records, lambda job: job["side"])
    return {side: best_of(by_side[side]) for side in ALL if side in by_side}


def median_of(runs, value):
    return statistics.median(map(value, runs))


def losses(best):
    least = {side: median_of(runs, lambda r: curve(r)[-1][1]) for side, runs in best.items()}
    goals = [loss for side, loss in least.items() if ALL[side].alone] or list(least.values())
    epoch_rows = epoch_rows_of([r for runs in best.values() for r in runs])
    goal = min(goals)
    header = ["side", "rate", "seeds", "least training loss", f"s to {goal:.4f}, the best alone"]
    rows = []
    for side, runs in best.items():
        speed = median_of(runs, rows_a_second)
        rows.append(
            [
                *(side, f"{runs[0]['job']['rate']:g}", len(runs), f"{least[side]:.4f}"),
                *(seconds_text(runs, goal), f"{epoch_rows / speed:.2f}" if epoch_rows else "–"),
                f"{speed:,.0f}",
            ]
        )
    return table([*header, "s an epoch", "rows/s"], rows)


def shares(best):
    """Of all workers of the sides that have any, with the first seed."""
    rows = []
    for side, (record, *_) in best.items():
        workers = record["workers"] or []
        sums = {key: max(1, sum(w[key] for w in workers)) for key in ("updates", "rows")}
        for worker in workers:
            batches = f"{worker['batch_min']} to {worker['batch_max']}, at last {worker['batch']}"
            share = {key: f"{worker[key]:,} ({worker[key] / sums[key]:.1%})" for key in sums}
            name = f"{worker['kind']}, {worker['device']}"
            failed = ", failed" if worker["failed"] else ""
            busy = f"{worker['busy_fraction']:.1%}{failed}"
            rows.append([side, name, share["updates"], share["rows"], batches, busy])
    return table(["side", *WORKERS], rows)


def tables(results):
    records = select(results.lines.values(), stage="hogbatch")
    found = [record for record in records if record["history"]]
    for data, of_data in group(found, lambda job: job["data"]).items():
        best = best_runs(of_data)
        yield f"## CPU and GPU, {data}: loss over seconds\n\n{losses(best)}"
        yield shares(best)
    failures = [record for record in records if not record["history"]]
    if failures:
        yield "Without a figure:\n"
    for record in failures:
        why = record.get("failure", "no loss was told")
        yield f"- {' '.join(map(str, fields_of(record).values()))}: {why}\n"
