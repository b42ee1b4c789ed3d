"""k PyTorch processes that train side by side on one GPU, without a word to each other, beside k
learners of Crossbow that synchronise after each batch: images a second of all, and memory."""

import contextlib
import functools
import os
import re
import subprocess
import sys

from bench import CROSSBOW, Failed, last_line, log, table
from bench.gpu import memory, ours
from bench.gpu.jobs import Job, fields_of
from bench.gpu.order import MAIN
from bench.learning.results import group, select
from bench.nets import NETS
from bench.peers.sides import Process, TooLate, ask_crossbow, options_of

COUNTS = (8, 16)
BATCH, PRECISION = 16, "bf16"
VARIANT = "captured compile"  # the fastest way of one process
WARM_UP = 0.5  # seconds, of a process that has just been made ready
SETTLE = 1.0  # of all together, in which each finds out how many steps are half a second
# All are asked for these three at once. The second counts: nobody has begun late or ended early.
INTERVALS = (1.5, 3.0, 1.5)
ANSWER_LIMIT = 60  # seconds
PREPARE_LIMIT = 240  # seconds until a process must be ready
NEEDED = {"crossbow": 15, "pytorch": 90}  # seconds that must be left
OURS_LIMIT = 60
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

    def prepare(self, count, left):
        while self.ready < count:
            new = self.processes[self.ready : count if self.ready else 1]
            for process in new:
                process.ask(WARM_UP)
            for process in new:
                process.prepared(max(1, min(PREPARE_LIMIT, left())))
            self.ready += len(new)

    def measure(self):
        """Images a second of each that is ready, at the same time."""
        training = self.processes[: self.ready]
        rates = []
        for intervals in ((SETTLE,), INTERVALS):
            for process in training:
                for seconds in intervals:
                    process.ask(seconds)
            answers = [[p.answer(ANSWER_LIMIT) for _ in intervals] for p in training]
            rates = [of_one[len(of_one) // 2]["images_per_second"] for of_one in answers]
        return rates

    def close(self):
        while self.processes:
            self.processes.pop().stop()


def measure_peers(processes, count, before, left):
    processes.prepare(count, left)
    rates = processes.measure()
    return {
        "images_per_second": sum(rates),
        "slowest": min(rates),
        "fastest": max(rates),
        "memory_mb": memory.used() - before,
    }


def shares_of(command):
    """Of the learners' time, in per cent: exchanges, and waiting for them; None where it says
    nothing of them. Cuts the time short that the next run takes for choices."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=OURS_LIMIT, env=ours.environment()
        )
    except subprocess.TimeoutExpired as error:
        raise TooLate(OURS_LIMIT) from error
    if done.returncode != 0:
        raise Failed(f"exit status {done.returncode}: {last_line(done.stderr)}")
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
    if left() < NEEDED[job.fields["side"]]:
        return False
    try:
        record = measure()
    except Failed as failure:
        if isinstance(failure, TooLate) and left() < 1:
            return False
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


def stage(args, results, left):
    models = [model for model in MAIN if model in args.models]
    jobs = [job_of(m, side, k) for m in models for side in NEEDED for k in COUNTS]
    jobs = [job for job in jobs if job.fields["side"] in ("crossbow", *args.peers)]
    jobs = [job for job in jobs if not results.find(job)]
    whole = True
    # First all of Crossbow's: the peers' processes import beside nothing that is measured.
    for job in (job for job in jobs if job.fields["side"] == "crossbow"):
        whole &= tried(results, job, left, functools.partial(measure_crossbow, job))
    peers = group_jobs([job for job in jobs if job.fields["side"] == "pytorch"])
    if peers and left() < NEEDED["pytorch"]:
        return False
    with contextlib.ExitStack() as stack:
        # The later ones import while the first net is compiled.
        groups = [stack.enter_context(contextlib.closing(Group(of[0].fields))) for of in peers]
        for of_model, processes in zip(peers, groups):
            before = memory.used()
            for job in of_model:
                count = job.fields["count"]
                measure = functools.partial(measure_peers, processes, count, before, left)
                whole &= tried(results, job, left, measure)
            processes.close()
    return whole


def row(case, by_side):
    def of(side, key):
        return by_side.get(side, {}).get(key)

    def ratio(one, other):
        return f"{one / other:.2f}×" if one and other else "–"

    rates = [of(side, "images_per_second") for side in NEEDED]
    memories = [of(side, "memory_mb") for side in NEEDED]
    shares, arena = of("crossbow", "sync_percent"), of("crossbow", "arena_mb")
    return [
        *case,
        *(f"{rate:,.0f}" if rate else "–" for rate in rates),
        ratio(*rates),
        *(f"{mib:,}" if mib else "–" for mib in memories),
        ratio(*reversed(memories)),
        f"{arena:.1f}" if arena else "–",
        " + ".join(f"{share:.2f}" for share in shares) if shares else "–",
    ]


HEADER = [
    *("net", "k", "k learners, images/s", "k PyTorch processes, images/s", "speed, ours / theirs"),
    *("learners, MiB", "processes, MiB", "memory, theirs / ours", "activations of a learner, MiB"),
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
