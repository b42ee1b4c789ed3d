"""The speed of sparse logistic regression in steps of one row: Crossbow on one thread and on two
that share the weights, beside scikit-learn's SGDClassifier and PyTorch's EmbeddingBag with sparse
gradients. Rows have real-sim's shape.

    python3 -m bench.hogbatch.sparse --peers-python PATH      on an idle machine

Every measurement is a line of the results, and is not made again.
"""

import concurrent.futures
import dataclasses
import os
import pathlib
import statistics
import sys
import tempfile

from bench import CROSSBOW, ROOT, Failed, log, parser_of, run_main, table
from bench import warn_if_busy
from bench.learning.results import Results
from bench.processes import answer_of, on_cpus, with_one_thread

DATA = "like-real-sim"
ONE, TWO, APART, SKLEARN, TORCH = "one", "two", "apart", "sklearn", "torch"
NAMES = {
    ONE: "Crossbow, one thread",
    TWO: "Crossbow, two Hogwild threads",
    APART: "Crossbow, two processes apart",
    SKLEARN: "scikit-learn, SGDClassifier",
    TORCH: "PyTorch, EmbeddingBag",
}


@dataclasses.dataclass(frozen=True)
class Job:
    side: str
    round: int
    epochs: int

    key = dataclasses.asdict


def run(command, cpus):
    """What the command prints as JSON, on these CPUs alone."""
    return answer_of(on_cpus(cpus, command), environment=with_one_thread())


def crossbow(args, cpus, *options):
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(CROSSBOW, "train", "--json", "--model", "logistic", "--data", DATA, "--batch", 1),
            *("--threads-per-learner", 1, "--epochs", args.epochs, "--eval-every", args.epochs),
            *("--out", f"{folder}/run", *options),
        ]
        return run(command, cpus)["images_per_second"]


def peer(args, name, cpus):
    command = [args.peers_python, "-m", "bench.hogbatch.sparse_peer", name]
    return run([*command, "--epochs", args.epochs], cpus)["rows_per_second"]


def apart(args, cpus):
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return sum(pool.map(lambda cpu: crossbow(args, [cpu], "--sync", "none"), cpus))


def sides_of(args):
    cpus = sorted(os.sched_getaffinity(0))[:2]
    sides = {
        ONE: lambda: crossbow(args, cpus[:1], "--sync", "none"),
        TWO: lambda: crossbow(args, cpus, "--sync", "hogwild", "--learners", 2),
        APART: lambda: apart(args, cpus),
    }
    if args.peers_python:
        sides[SKLEARN] = lambda: peer(args, SKLEARN, cpus[:1])
        sides[TORCH] = lambda: peer(args, TORCH, cpus[:1])
    return sides


def print_table(speeds):
    """Ratios are of a round's sides, which share the machine's mood."""
    rows = []
    for side, found in speeds.items():
        ours = side in (TWO, APART)
        pairs = zip(found, speeds[ONE]) if ours else zip(speeds[ONE], found)
        ratios = sorted(one / other for one, other in pairs)
        ratio = f"{statistics.median(ratios):.3g}× ({ratios[0]:.3g}–{ratios[-1]:.3g})"
        of_what = "it / one thread" if ours else "one thread / it"
        rows.append([NAMES[side], f"{statistics.median(found):,.0f}", ratio, of_what, len(found)])
    print(table(["side", "rows/s, median", "ratio: median (range)", "of", "rounds"], rows))


def main():
    parser = parser_of("bench.hogbatch.sparse", __doc__)
    add = parser.add_argument
    add("--epochs", type=int, default=10, help="of each side in each round (default 10)")
    add("--rounds", type=int, default=5, help="default 5")
    add("--peers-python", metavar="PATH", help="a Python that has torch and scikit-learn")
    path = ROOT / "build/hogbatch/sparse.jsonl"
    add("--results", type=pathlib.Path, default=path, metavar="FILE")
    args = parser.parse_args()
    if not os.access(CROSSBOW, os.X_OK):
        parser.error(f"no program {CROSSBOW}: build the release preset")
    warn_if_busy()
    sides, results = sides_of(args), Results(args.results)
    speeds = {side: [] for side in sides}
    for number in range(1, args.rounds + 1):
        for side, measure in sides.items():
            job = Job(side, number, args.epochs)
            try:
                record = results.find(job) or results.add(job, {"rows_per_second": measure()})
            except Failed as failure:
                sys.exit(f"{NAMES[side]}: {failure}")
            speeds[side].append(record["rows_per_second"])
            log(f"round {number}, {NAMES[side]}: {speeds[side][-1]:,.0f} rows/s")
    print_table(speeds)


if __name__ == "__main__":
    run_main(main)
