"""k PyTorch processes that train side by side on one GPU, without a word to each other, as they
are and by NVIDIA's MPS, beside k learners of Crossbow that synchronise after each batch: images a
second of all, and memory."""

import contextlib
import functools
import os
import re
import sys
import time

from bench import CROSSBOW, Failed, log, table
from bench.gpu import memory, mps, ours
from bench.gpu.jobs import Job, fields_of
from bench.gpu.order import MAIN
from bench.learning.results import group, select
from bench.nets import NETS
from bench.peers.sides import Process, ask_crossbow, options_of
from bench.processes import finished

COUNTS = (8, 16)
BATCH, PRECISION = 16, "bf16"
VARIANT = "captured compile"  # the fastest way of one process
WARM_UP = 0.5  # seconds, of a process that has just been made ready
SETTLE = 1.0  # of all together, in which each finds out how many steps are half a second
# All are asked for these three at once. The second counts: nobody has begun late or ended early.
INTERVALS = (1.5, 3.0, 1.5)
OURS_LIMIT = 60  # seconds of a run of ours, of which a measurement takes two
PEERS_LIMIT = 240  # seconds until all processes must be ready and measured
MPS = "pytorch, MPS"
LIMITS = {"crossbow": 2 * OURS_LIMIT, "pytorch": PEERS_LIMIT, MPS: PEERS_LIMIT}
SHARES = re.compile(r"([\d.]+) % of the time computing exchanges, ([\d.]+) % waiting")


class Group:
    """Processes of one net. All import at once; they are made ready as more of them are asked for,
    the first one alone, so that the others find what it has compiled."""

    def __init__(self, case):
        cpus = os.sched_getaffinity(0)
        self.processes = [
            Process(sys.executable, "bench.gpu.pytorch_peer", case, VARIANT, cpus)
            for _ in range(max(COUNTS))
        ]
        self.ready = 0

    def prepare(self, count, end):
        while self.ready < count:
            new = self.processes[self.ready : count if self.ready else 1]
            for process in new:
                process.ask(WARM_UP)
            for process in new:
                process.prepared(max(1, end - time.monotonic()))
            self.ready += len(new)

    def measure(self, end):
        """Images a second of each that is ready, at the same time."""

        def answer(process):
            return process.answer(max(1, end - time.monotonic()))

        training = self.processes[: self.ready]
        rates = []
        for intervals in ((SETTLE,), INTERVALS):
            for process in training:
                for seconds in intervals:
                    process.ask(seconds)
            answers = [[answer(process) for _ in intervals] for process in training]
            rates = [of_one[len(of_one) // 2]["images_per_second"] for of_one in answers]
        return rates

    def close(self):
        while self.processes:
            self.processes.pop().stop()


def measure_group(processes, count, before):
    end = time.monotonic() + PEERS_LIMIT
    processes.prepare(count, end)
    rates = processes.measure(end)
    return {
        "images_per_second": sum(rates),
        "slowest": min(rates),
        "fastest": max(rates),
        "memory_mb": memory.used() - before,
    }


def shares_of(command):
    """Of the learners' time, in per cent: exchanges, and waiting for them; None where it says
    nothing of them. Cuts the time short that the next run takes for choices."""
    done = finished(command, OURS_LIMIT, ours.environment())
    found = SHARES.search(" ".join(done.stdout.split()))
    return [float(share) for share in found.groups()] if found else None


def measure_crossbow(job):
    fields = job.fields
    command = [str(CROSSBOW), "bench", "--device", "cuda", *options_of(fields)]
    command += ["--learners", str(fields["count"]), "--sync", "sma", "--seconds"]
    shares = shares_of([*command, "1"])
    before = memory.used()
    with memory.Watch() as watch:
        answer, _ = ask_crossbow(
            [*command, str(INTERVALS[1]), "--json"],
            NETS[fields["model"]][2],
            OURS_LIMIT,
            ours.environment(),
        )
    return {
        "images_per_second": answer["images_per_second"],
        "memory_mb": watch.most - before,
        "arena_mb": answer["arena_mb"],  # activations of one learner
        "sync_percent": shares,
    }


def job_of(model, side, count):
    case = {"model": model, "batch": BATCH, "precision": PRECISION}
    return Job("processes", {**case, "side": side, "count": count})


def tried(results, job, left, measure):
    """Whether the job is done. Too little time is no result; a failure is."""
    if left() < LIMITS[job.fields["side"]]:
        return False
    try:
        record = measure()
    except Failed as failure:
        record = {"failure": str(failure)}
    results.add(job, record)
    rate, mib = record.get("images_per_second"), record.get("memory_mb")
    said = f"{rate:,.0f} images/s, {mib:,} MiB" if rate else record["failure"]
    log(f"  {' '.join(map(str, job.fields.values()))}: {said}")
    return True


def group_jobs(jobs):
    """Lists of those of one net."""
    models = dict.fromkeys(job.fields["model"] for job in jobs)
    return [[job for job in jobs if job.fields["model"] == model] for model in models]


def measure_ours(jobs, results, left):
    """Whether all of the jobs are done."""
    whole = True
    for job in jobs:
        whole &= tried(results, job, left, functools.partial(measure_crossbow, job))
    return whole


def measure_peers(jobs, results, left):
    """Whether all of the jobs, of one side, are done."""
    if not jobs or left() < PEERS_LIMIT:
        return not jobs
    whole, before = True, memory.used()
    with contextlib.ExitStack() as stack:
        if jobs[0].fields["side"] == MPS:
            stack.enter_context(mps.shared())
        nets = group_jobs(jobs)
        # The later ones import while the first net is compiled.
        groups = [stack.enter_context(contextlib.closing(Group(of[0].fields))) for of in nets]
        for of_net, processes in zip(nets, groups):
            for job in of_net:
                measure = functools.partial(measure_group, processes, job.fields["count"], before)
                whole &= tried(results, job, left, measure)
            processes.close()
    return whole


def sides_of(args):
    if "pytorch" not in args.peers:
        return ["crossbow"]
    if not mps.CONTROL:
        log("  no nvidia-cuda-mps-control here")
    return [side for side in LIMITS if side != MPS or mps.CONTROL]


def stage(args, results, left):
    models = [model for model in MAIN if model in args.models]
    whole = True
    # First all of Crossbow's: the peers' processes import beside nothing that is measured.
    for side in sides_of(args):
        jobs = [job_of(model, side, count) for model in models for count in COUNTS]
        jobs = [job for job in jobs if not results.find(job)]
        measure = measure_ours if side == "crossbow" else measure_peers
        try:
            whole &= measure(jobs, results, left)
        except Failed as failure:  # of MPS, or of the driver's answer
            for job in jobs:
                if not results.find(job):
                    results.add(job, {"failure": str(failure)})
    return whole


def row(case, by_side):
    def of(side, key):
        return by_side.get(side, {}).get(key)

    def ratio(one, other):
        return f"{one / other:.2f}×" if one and other else "–"

    rates = [of(side, "images_per_second") for side in LIMITS]
    memories = [of(side, "memory_mb") for side in LIMITS]
    shares, arena = of("crossbow", "sync_percent"), of("crossbow", "arena_mb")
    return [
        *case,
        *(f"{rate:,.0f}" if rate else "–" for rate in rates),
        ratio(rates[0], max(filter(None, rates[1:]), default=None)),
        *(f"{mib:,}" if mib else "–" for mib in memories),
        ratio(min(filter(None, memories[1:]), default=None), memories[0]),
        f"{arena:.1f}" if arena else "–",
        " + ".join(f"{share:.2f}" for share in shares) if shares else "–",
    ]


HEADER = [
    *("net", "k", "k learners, images/s", "k PyTorch processes, images/s", "by MPS"),
    *("speed, ours / the better of theirs", "learners, MiB", "processes, MiB", "by MPS"),
    *("memory, the less of theirs / ours", "activations of a learner, MiB"),
    "exchanges + waiting for them, % of the time",
]


def tables(results):
    records = select(results.lines.values(), stage="processes")
    cases = group(records, lambda job: (job["model"], job["count"]))
    if cases:
        rows = [
            row(case, {record["job"]["side"]: record for record in of_case})
            for case, of_case in cases.items()
        ]
        about = f"batch {BATCH}, {PRECISION}; PyTorch {VARIANT}"
        yield f"## Learners beside processes, {about}\n\n{table(HEADER, rows)}"
    for record in records:
        if "failure" in record:
            yield f"- {' '.join(map(str, fields_of(record).values()))}: {record['failure']}\n"
