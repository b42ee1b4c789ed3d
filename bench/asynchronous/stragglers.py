"""What a straggler costs the other node, on the real clock: two nodes, of which the second takes
four times as long in every other run."""

import dataclasses
import statistics

from bench import table, warn_if_busy
from bench.asynchronous.jobs import job_of
from bench.learning.results import group, select

ALGORITHMS = ["hogwild", "downpour", "async-easgd", "gossip-pull", "ad-psgd", "sgp"]
STRAGGLER = ("--straggler", "1:4")


def run(runner, args):
    """A round is a seed. The two kinds of runs take turns to be the first."""
    warn_if_busy()
    for number in range(1, args.rounds + 1):
        for name in args.algorithms:
            for options in ((), STRAGGLER) if number % 2 else (STRAGGLER, ()):
                job = job_of(args, name, 2, options)
                runner.do(dataclasses.replace(job, seed=number))


def throughput(node):
    """Updates a second."""
    return node["updates"] / (node["busy_seconds"] + node["waiting_seconds"])


def median(records, value):
    """Of `value(node 0, node 1)`."""
    return statistics.median(value(*record["nodes"]) for record in records)


def row(name, records):
    ended = [record for record in records if record.get("nodes")]
    ordinary, stretched = (select(ended, options=list(o)) for o in ((), STRAGGLER))
    if not ordinary or not stretched:
        return [name, *["–"] * 7]
    before, after = (median(r, lambda first, _: throughput(first)) for r in (ordinary, stretched))

    def staleness(node):
        mean, most = (
            median(stretched, lambda *nodes: nodes[node][f"staleness_{field}"])
            for field in ("mean", "max")
        )
        return f"{mean:.1f} ({most:g})"

    share = median(stretched, lambda first, second: second["updates"] / first["updates"])
    rounds = min(len(ordinary), len(stretched))
    speeds = [f"{before:.1f}", f"{after:.1f}", f"**{after / before:.2f}×**"]
    return [name, *speeds, f"{share:.2f}", staleness(0), staleness(1), rounds]


def tables(results):
    records = select(results.lines.values(), stage="stragglers")
    header = [
        *("", "ordinary", "beside a straggler", "ratio", "straggler's updates for each of node 0"),
        *("staleness of node 0, mean (most)", "of the straggler", "rounds"),
    ]
    parts = []
    for (task, epochs), runs in group(records, lambda j: (j["task"], j["epochs"])).items():
        by_name = group(runs, lambda job: job["sync"])
        parts += [
            f"## {task}: updates/s of node 0 beside an ordinary node and beside a straggler\n\n"
            "The straggler is node 1, which takes four times as long. Seconds are those in which "
            f"node 0 was busy or waited. Medians of rounds; epochs a run: {epochs}.\n",
            table(header, [row(name, of_name) for name, of_name in by_name.items()]),
        ]
    return parts
