"""1.28 million records: how long the index takes, then a first batch, and in how much memory.

SHARDS is a folder that `crossbow convert imagenet:PICTURES tfrecord:SHARDS` wrote, of 1,250 pictures a
file. Its training files are linked again and again, to 1,024, and those of the test to 128, in LINKED, a
folder of the same file system. The first line is of a program that makes the index, the others of
programs that find it: each opens the set and takes one batch, of an epoch that begins with that batch.

It needs input_benchmark (cmake --preset release -DCROSSBOW_BENCHMARKS=ON && cmake --build --preset
release).
"""

import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import time

from bench import Failed, parser_of, run_main, table, warn_if_busy
from bench.input.__main__ import BENCHMARK, expect_benchmark

FILES = {"train": 1024, "validation": 128}
BATCHES = (0, 40000)


def link(shards, linked):
    """Whole, or not at all."""
    begun = linked.with_name(f"{linked.name}.begun")
    shutil.rmtree(begun, ignore_errors=True)
    begun.mkdir()
    for part, count in FILES.items():
        files = sorted(shards.glob(f"{part}-*"))
        if not files:
            sys.exit(f"{shards} has no file {part}-*: crossbow convert writes them")
        for number, file in zip(range(count), itertools.cycle(files)):
            os.link(file, begun / f"{part}-{number:05}-of-{count:05}")
    begun.rename(linked)


def measure(linked, batch):
    """Seconds and MiB of a whole program."""
    start = time.monotonic()
    program = subprocess.Popen(
        [BENCHMARK, f"--benchmark_filter=first_batch/{batch}/"],
        env={**os.environ, "CROSSBOW_PICTURES": f"imagenet:{linked}"},
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(program.pid, 0)
    if status != 0:
        raise Failed(f"input_benchmark ended with {os.waitstatus_to_exitcode(status)}")
    return time.monotonic() - start, usage.ru_maxrss / 1024


def main():
    parser = parser_of("bench.input.scale", __doc__)
    parser.add_argument("shards", metavar="SHARDS", type=pathlib.Path)
    parser.add_argument("linked", metavar="LINKED", type=pathlib.Path)
    args = parser.parse_args()
    expect_benchmark()
    warn_if_busy()
    if not args.linked.exists():
        link(args.shards, args.linked)
    (args.linked / ".crossbow-index").unlink(missing_ok=True)
    ways = [("the index, and batch 0", 0), *((f"batch {batch}", batch) for batch in BATCHES)]
    rows = [(name, *measure(args.linked, batch)) for name, batch in ways]
    lines = [[name, f"{seconds:.2f}", f"{mib:.0f}"] for name, seconds, mib in rows]
    print(table(["until", "s", "MiB at most"], lines))


if __name__ == "__main__":
    run_main(main)
