"""How soon after a rank is lost the others know, and how soon they train on: seconds from the signal that
kills or stops it, over an MPI that survives that. And how much of a core a spare rank uses while it waits."""

import contextlib
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time

from bench import Failed, log, parser_of, run_main, table, warn_if_busy
from bench.cluster.faults import SCRIPT, await_checkpoint, end_all, process_of

EXAMPLES = """
Examples:
  python3 -m bench.cluster.pauses                       needs the machine idle; a minute
  python3 -m bench.cluster.pauses --model resnet-20 --rounds 1
"""
# What happens: the rank that is hit, its signal, and whether there is a spare one.
LOSSES = {
    "the last of two is killed": (1, signal.SIGKILL, False),
    "the first of two is killed": (0, signal.SIGKILL, False),
    "one of two is killed, a spare steps in": (1, signal.SIGKILL, True),
    "one of two is stopped": (1, signal.SIGSTOP, False),
}
GOES_ON = re.compile(r"ranks? goe?s? on after ([0-9.]+) s")
PATIENCE = 30  # seconds until the others go on
SPARE_SECONDS = 20


@contextlib.contextmanager
def training(model, spare):
    """Of two ranks, and a spare one: the launcher's process and the run's folder, once it has a checkpoint."""
    with tempfile.TemporaryDirectory(prefix="crossbow-pauses-") as folder:
        out = pathlib.Path(folder) / "run"
        command = [SCRIPT, "--survivors", "--model", model, "--data", "digits", "--epochs", 1000]
        command += ["--learners", 1, "--threads-per-learner", 1, "--save-every", 0.01, "--json", "--out", out]
        command += ["--spares", 1] if spare else []
        run = subprocess.Popen(
            [str(word) for word in command],
            env={**os.environ, "RANKS": "3" if spare else "2"},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        try:
            if not await_checkpoint(run, out):
                raise Failed(f"the run of {model} has saved nothing")
            yield run, out
        finally:
            end_all(run, out)


def expected_process(rank, out):
    process = process_of(rank, out)
    if not process:
        raise Failed(f"there is no rank {rank}")
    return process


def pause(model, rank, number, spare, wait):
    """Seconds until the loss was noticed, and until the others trained on."""
    with training(model, spare) as (run, out):
        time.sleep(wait)
        process = expected_process(rank, out)
        late = threading.Timer(PATIENCE, end_all, (run, out))
        late.start()
        hit = time.monotonic()
        os.kill(process, number)
        try:
            for line in run.stderr:
                if found := GOES_ON.search(line):
                    trains = time.monotonic() - hit
                    return trains - float(found[1]), trains
        finally:
            late.cancel()
    raise Failed("the others did not go on")


def share_of_spare(model):
    """Of a core."""
    with training(model, spare=True) as (_, out):
        stat = pathlib.Path(f"/proc/{expected_process(2, out)}/stat")

        def seconds():
            user, system = stat.read_text().rpartition(")")[2].split()[11:13]
            return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

        before = seconds()
        time.sleep(SPARE_SECONDS)
        return (seconds() - before) / SPARE_SECONDS


def text_of(values):
    values = sorted(values)
    return f"{statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})"


def main():
    parser = parser_of("bench.cluster.pauses", __doc__, EXAMPLES)
    parser.add_argument("--model", default="lenet", help="as of crossbow train (default lenet)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="default 5")
    args = parser.parse_args()
    warn_if_busy()
    draw = random.Random(1)
    rows = []
    for text, (rank, number, spare) in LOSSES.items():
        found = []
        for _ in range(args.rounds):
            found.append(pause(args.model, rank, number, spare, wait=draw.uniform(0.5, 1.5)))
            log(f"{text}: noticed after {found[-1][0]:.2f} s, trained on after {found[-1][1]:.2f} s")
        rows.append([text, *map(text_of, zip(*found))])
    print(table([args.model, "noticed", "the others train on"], rows))
    print(f"A spare rank uses {share_of_spare(args.model):.1%} of a core.")


if __name__ == "__main__":
    run_main(main)
