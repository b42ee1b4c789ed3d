"""A run of `crossbow train` that is ended after so many seconds, and its losses over time."""

import bisect
import json
import math
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from bench import CROSSBOW, Failed, last_line
from bench.learning.runner import end_with_parent
from bench.processes import TooLate

EPOCHS = 1_000_000  # more than there is time for
ENDED = (0, 128 + signal.SIGTERM)  # exit statuses of a run that has told its results
POLL_SECONDS = 0.02
WINDOW_SHARE = 0.02  # of a run's rows that a window, over which losses are averaged, has at least
# Where checkpoints cost no time: there is one after each epoch, and epochs may be very short.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def end_after(process, metrics, seconds, limit):
    """Ends the run so many seconds after its first line of metrics."""
    end, stop = time.monotonic() + limit, math.inf
    while process.poll() is None and time.monotonic() < min(stop, end):
        if stop == math.inf and metrics.exists() and metrics.stat().st_size > 0:
            stop = time.monotonic() + seconds
        time.sleep(POLL_SECONDS)
    if process.poll() is None and time.monotonic() < stop:
        raise TooLate(limit)
    process.terminate()
    try:
        process.wait(max(1, end - time.monotonic()))
    except subprocess.TimeoutExpired as error:
        raise TooLate(limit) from error


def epoch_ends(lines, answer):
    """(rows, seconds of training) at the ends of all epochs, and at the run's."""
    ends = [(0, 0.0)]
    for line in lines:
        if "epoch" in line:
            rows, seconds = ends[-1]
            of_epoch = round(line["images_per_second"] * line["seconds"])
            ends.append((rows + of_epoch, seconds + line["seconds"]))
    last = round(answer["images_per_second"] * answer["train_seconds"])
    if last > ends[-1][0]:
        ends.append((last, answer["train_seconds"]))
    return ends


def seconds_at(rows, ends):
    """Within an epoch rows are taken to follow each other evenly."""
    place = min(bisect.bisect_left(ends, (rows, 0.0)), len(ends) - 1)
    (first, begin), (last, end) = ends[max(0, place - 1)], ends[place]
    return begin + (end - begin) * min(1, (rows - first) / max(1, last - first))


def windows(lines, ends, window_rows):
    """The mean losses, in turn, of which bench/hogbatch/curves.py makes a curve. A run of few rows is
    one window; what follows the last whole window of another is left out."""
    least = max(window_rows, WINDOW_SHARE * ends[-1][0])
    last = max((line["samples"] for line in lines if "loss" in line), default=0)
    history, seen, begin, losses, rows = [], 0, 0.0, 0.0, 0
    for line in lines:
        if "loss" not in line:
            continue
        losses += line["loss"] * (line["samples"] - seen)
        rows += line["samples"] - seen
        seen = line["samples"]
        if rows >= min(least, last):
            end = seconds_at(seen, ends)
            loss = {"train_loss": round(losses / rows, 6), "rows": rows}
            history.append({"seconds": round(end - begin, 4), **loss})
            begin, losses, rows = end, 0.0, 0
    return history


def kept_of_epoch(worker):
    counts = {name: worker[name] for name in ("kind", "updates", "rows", "batch")}
    return {**counts, "busy_fraction": round(worker["busy_fraction"], 4)}


def train(words, seconds, limit, window_rows, environment=None):
    """What came of training with these options: `history` by windows of so many rows or more, the
    rows and seconds of training in all, the rows of an epoch if one was ended, and what the workers
    say: at the end, and at the end of each epoch, as sums."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        folder = pathlib.Path(folder)
        ending = ("--epochs", EPOCHS, "--eval-every", EPOCHS, "--out", folder / "run")
        command = [str(word) for word in (CROSSBOW, "train", "--json", *words, *ending)]
        metrics = folder / "run/metrics.jsonl"
        with open(folder / "said", "w+") as said, open(folder / "errors", "w+") as errors:
            process = subprocess.Popen(
                command,
                stdout=said,
                stderr=errors,
                env=environment,
                preexec_fn=end_with_parent,
            )
            try:
                end_after(process, metrics, seconds, limit)
            finally:
                process.kill()
                process.wait()
            said.seek(0)
            errors.seek(0)
            if process.returncode not in ENDED:
                why = last_line(errors.read())
                raise Failed(f"exit status {process.returncode}: {why}")
            answer = json.load(said)
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    ends = epoch_ends(lines, answer)
    epochs = [line for line in lines if "epoch" in line]
    by_epoch = [
        {"seconds": round(line["seconds"], 4), "workers": [*map(kept_of_epoch, line["workers"])]}
        for line in epochs
        if "workers" in line
    ]
    return {
        "history": windows(lines, ends, window_rows),
        "rows": ends[-1][0],
        "train_seconds": answer["train_seconds"],
        "epoch_rows": ends[1][0] if epochs else None,
        "workers": answer.get("workers"),
        "by_epoch": by_epoch,
    }
