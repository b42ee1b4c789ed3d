"""Seconds from the beginning of `crossbow train` until its first step is told, where all choices
are remembered: a run before has made them."""

import pathlib
import subprocess
import tempfile
import time

from bench import CROSSBOW, Failed, last_line, log, table
from bench.gpu import ours
from bench.gpu.jobs import Job, fields_of
from bench.gpu.order import MAIN
from bench.learning.results import select
from bench.peers.sides import options_of
from bench.processes import TooLate

CASE = {"batch": 16, "precision": "bf16", "learners": 8}
RUN_LIMIT = 120  # seconds


def first_step(fields):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        metrics = pathlib.Path(folder) / "run/metrics.jsonl"
        command = [CROSSBOW, "train", "--data", "digits", "--device", "cuda", *options_of(fields)]
        command += ["--learners", str(fields["learners"]), "--log-every", "1"]
        start = time.monotonic()
        process = subprocess.Popen(
            [*command, "--out", metrics.parent],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=ours.environment(),
        )
        try:
            while not metrics.exists() or metrics.stat().st_size == 0:
                if process.poll() is not None:
                    errors.seek(0)
                    why = last_line(errors.read())
                    raise Failed(f"exit status {process.returncode}: {why}")
                if time.monotonic() > start + RUN_LIMIT:
                    raise TooLate(RUN_LIMIT)
                time.sleep(0.01)
            return time.monotonic() - start
        finally:
            process.kill()
            process.wait()


def stage(args, results, left):
    for model in (model for model in MAIN if model in args.models):
        job = Job("first-step", {"model": model, **CASE})
        if results.find(job):
            continue
        if left() < 2 * RUN_LIMIT:
            return False
        try:
            first_step(job.fields)
            record = {"seconds": round(first_step(job.fields), 2)}
        except Failed as failure:
            record = {"failure": str(failure)}
        results.add(job, record)
        log(f"  {model}: {record.get('failure', record.get('seconds'))}")
    return True


def tables(results):
    records = select(results.lines.values(), stage="first-step")
    if records:
        rows = [
            [*fields_of(r).values(), r.get("failure") or f"{r['seconds']:.2f}"] for r in records
        ]
        yield "## The first step of a run, choices remembered; asked: within 5 s\n\n" + table(
            ["net", "batch", "precision", "learners", "seconds"], rows
        )
