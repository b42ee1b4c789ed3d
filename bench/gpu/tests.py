"""The tests OnGpu*, in shards side by side, and NVIDIA's checkers over some of them."""

import json
import os
import shutil
import subprocess
import time

from bench import last_line, log, table
from bench.gpu import ours
from bench.gpu.jobs import Job, fields_of
from bench.learning.results import select

SHARDS = 8
KERNELS = "*OnGpuKernels*:OnGpuDevice.Q*:OnGpuDevice.C*"
# Of kernels that are ours; cuDNN's are its own.
OURS = ":".join(f"*OnGpuKernels.F32/*{op}*" for op in ("norm", "pool", "softmax", "dropout", "mse"))
CHECKS = {"memcheck": KERNELS, "racecheck": OURS, "initcheck": OURS}


def start(filter, shard, shards, out, before=()):
    part = {"GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard)}
    with open(out.with_suffix(".log"), "w") as log_file:
        return subprocess.Popen(
            [*before, ours.TESTS, f"--gtest_filter={filter}", f"--gtest_output=json:{out}"],
            stdout=log_file,
            stderr=subprocess.STDOUT,
            env={**ours.environment(), **part},
        )


def outcome(out, status):
    """What a shard's file says, and how the process ended if there is none."""
    if not out.exists():
        said = out.with_suffix(".log").read_text(errors="replace")
        return {"ran": 0, "failed": [], "ended": f"exit status {status}: {last_line(said)}"}
    suites = json.loads(out.read_text())["testsuites"]
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


def finish(processes, left):
    """Their exit statuses; what is not done in time is ended."""
    while any(process.poll() is None for process in processes) and left() > 10:
        time.sleep(0.2)
    for process in processes:
        process.kill()
    return [process.wait() for process in processes]


def run_parts(filter, parts, args, results, left):
    """Parts of the tests of that name, side by side; False if the time was too short."""
    open_jobs = [job for job in parts if not results.find(job)]
    files = [args.work / f"{job.fields['tests']}-{job.fields['shard']}.json" for job in open_jobs]
    processes = [
        start(filter, job.fields["shard"], len(parts), file)
        for job, file in zip(open_jobs, files)
    ]
    whole = True
    for job, file, status in zip(open_jobs, files, finish(processes, left)):
        found = outcome(file, status)
        if found.get("ended") and left() <= 10:
            whole = False
            continue
        results.add(job, found)
        for test in found["failed"]:
            log(f"  failed: {test['name']}: {test['why'][:300]}")
        if found.get("ended"):
            log(f"  {' '.join(map(str, job.fields.values()))}: {found['ended']}")
    return whole


def stage(args, results, left):
    def jobs(tests, shards):
        return [Job("tests", {"tests": tests, "shard": shard}) for shard in range(shards)]

    # The device's look at its free memory.
    whole = run_parts("OnGpuDevice.*", jobs("device", 1), args, results, left)
    rest = "*OnGpu*:-OnGpuDevice.*"
    return run_parts(rest, jobs("rest", SHARDS), args, results, left) and whole


def check_stage(args, results, left):
    checker = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.path.exists(checker):
        log("  no compute-sanitizer here")
        return True
    for tool, filter in CHECKS.items():
        job = Job("checks", {"tool": tool})
        if results.find(job):
            continue
        if left() < 30:
            return False
        out = args.work / f"{tool}.json"
        before = [checker, "--tool", tool, "--error-exitcode", "9"]
        status = finish([start(filter, 0, 1, out, before)], left)[0]
        found = outcome(out, status)
        if found.get("ended") and left() <= 10:
            return False
        results.add(job, found)
        log(f"  {tool}: {found['ran']} tests, exit status {status}")
    return True


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
