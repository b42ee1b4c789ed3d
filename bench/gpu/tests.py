"""The tests OnGpu* in shards, several side by side, and NVIDIA's checkers over shards of some of
them, one by one."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time

from bench import last_line, log, table
from bench.gpu import ours
from bench.gpu.jobs import Job, fields_of
from bench.learning.results import select

LIMIT = 200  # seconds of a shard
SHARDS, SIDE_BY_SIDE = 32, 8
# It asks for more memory than there is, which memcheck would report.
ALL = "*OnGpu*:-OnGpuDevice.SaysHowMuchMemoryThereIs"
# Of our own kernels: all ops but those that cuDNN and cuBLASLt compute, and these where ours are
# chosen; sparse rows and pixels; updates, and what queues launch.
OURS = (
    "*OnGpuKernels.F32/*:*OnGpuKernels.Bf16/*:OnGpuKernels.AreRightByOurs:*OnGpuSparseRun*"
    ":OnGpu/Pixels.*:OnGpuDevice.Q*:OnGpuDevice.C*:-*/conv2d:*/dense"
)
CHECKS = {"racecheck": (OURS, 8), "initcheck": (OURS, 8), "memcheck": (ALL, 32)}


class Shard:
    """A process that runs a share of the tests of that name."""

    def __init__(self, job, filter, folder, before):
        self.job = job
        self.out = folder / f"{'-'.join(map(str, job.fields.values()))}.json"
        self.out.unlink(missing_ok=True)
        self.end = time.monotonic() + LIMIT
        options = [f"--gtest_filter={filter}", f"--gtest_output=json:{self.out}"]
        share = {
            "GTEST_TOTAL_SHARDS": str(job.fields["of"]),
            "GTEST_SHARD_INDEX": str(job.fields["shard"]),
        }
        with open(self.out.with_suffix(".log"), "w") as log_file:
            self.process = subprocess.Popen(
                [*before, ours.TESTS, *options],
                stdout=log_file,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that what a checker has started ends with it
                env={**ours.environment(), **share},
            )

    def ended(self):
        """Whether it has, by itself or as its time is over."""
        if time.monotonic() >= self.end:
            self.kill()
        return self.process.poll() is not None

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def outcome(self):
        """What its file says, and how the process ended if there is none."""
        status = self.process.returncode
        if not self.out.exists():
            said = self.out.with_suffix(".log").read_text(errors="replace")
            why = f"exit status {status}"
            if status == -signal.SIGKILL:
                why = f"no end within {LIMIT} s"
            return {"ran": 0, "failed": [], "ended": f"{why}: {last_line(said)}"}
        suites = json.loads(self.out.read_text())["testsuites"]
        tests = [t for suite in suites for t in suite["testsuite"] if t["status"] == "RUN"]
        failed = [
            {
                "name": f"{test['classname']}.{test['name']}",
                "why": test["failures"][0]["failure"][:1000],
            }
            for test in tests
            if "failures" in test
        ]
        skipped = sum(test["result"] == "SKIPPED" for test in tests)
        return {"ran": len(tests) - skipped, "skipped": skipped, "failed": failed, "status": status}


def run(jobs, filter, side_by_side, args, results, left, before=()):
    """False if there is no time for another shard."""
    waiting, running = [job for job in jobs if not results.find(job)], []
    try:
        while True:
            while waiting and len(running) < side_by_side and left() >= LIMIT:
                running.append(Shard(waiting.pop(0), filter, args.work, before))
            if not running:
                return not waiting
            for shard in [shard for shard in running if shard.ended()]:
                running.remove(shard)
                keep(shard, results)
            time.sleep(0.2)
    finally:
        for shard in running:
            shard.kill()


def keep(shard, results):
    found = shard.outcome()
    results.add(shard.job, found)
    told = found.get("ended", f"{found['ran']} tests, exit status {found.get('status')}")
    log(f"  {' '.join(map(str, shard.job.fields.values()))}: {told}")
    for test in found["failed"]:
        log(f"  failed: {test['name']}: {test['why'][:300]}")


def stage(args, results, left):
    def jobs(tests, count):
        return [Job("tests", {"tests": tests, "shard": i, "of": count}) for i in range(count)]

    # The device's look at its free memory: nothing runs beside it.
    whole = run(jobs("device", 1), "OnGpuDevice.*", 1, args, results, left)
    rest = "*OnGpu*:-OnGpuDevice.*"
    return run(jobs("rest", SHARDS), rest, SIDE_BY_SIDE, args, results, left) and whole


def check_stage(args, results, left):
    checker = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.path.exists(checker):
        log("  no compute-sanitizer here")
        return True
    whole = True
    for tool, (filter, count) in CHECKS.items():
        before = [checker, "--tool", tool, "--error-exitcode", "9"]
        jobs = [Job("checks", {"tool": tool, "shard": i, "of": count}) for i in range(count)]
        whole &= run(jobs, filter, 1, args, results, left, before)
    return whole


def tables(results):
    for name in ("tests", "checks"):
        records = select(results.lines.values(), stage=name)
        if not records:
            continue
        ran = sum(r["ran"] for r in records)
        failed = [test for r in records for test in r["failed"]]
        ended = sum("ended" in r for r in records)
        yield f"## {name.capitalize()}: {ran} ran, {len(failed)} failed, {ended} parts ended early\n"
        rows = [
            [" ".join(map(str, fields_of(r).values())), r["ran"], r.get("ended", r.get("status"))]
            for r in records
        ]
        yield table(["part", "tests", "exit status"], rows)
        for test in failed:
            yield f"- {test['name']}: {test['why']}\n"
