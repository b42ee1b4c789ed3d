"""Images a second of training steps: Crossbow's learners beside PyTorch and JAX, one after the
other on the GPU. The next peers import meanwhile; those that compile do so side by side, before
they are measured. A line of the results is one side of one case; what is there is not run again."""

import contextlib
import os
import sys
import time

from bench import CROSSBOW, Failed, log
from bench.gpu import ours
from bench.gpu.order import SLOW, order, side_of
from bench.learning.results import key_of
from bench.nets import NETS
from bench.peers.sides import Process, ask_crossbow, options_of

WARM_UP = 0.5  # seconds, of a peer
SECONDS = 0.7  # of a measurement; a peer has two, and the better one counts
ANSWER_LIMIT = 10  # seconds
AHEAD = 6  # peers that have started before their turn
# Seconds until a side must be ready: ours chooses kernels when it meets a net for the first time.
QUICK_LIMIT, OUR_LIMIT, SLOW_LIMIT = 40, 120, 240


class Pool:
    """The peers' processes, by job. One that has started imports, and waits for its turn."""

    def __init__(self):
        self.processes = {}

    def start(self, job):
        key = key_of(job.key())
        if key not in self.processes:
            side, variant = side_of(job)
            module, cpus = f"bench.gpu.{side}_peer", os.sched_getaffinity(0)
            self.processes[key] = Process(sys.executable, module, job.fields, variant, cpus)
        return self.processes[key]

    def close(self):
        for process in self.processes.values():
            process.stop()


def is_crossbow(job):
    return job.fields["side"] == "crossbow"


def ready_limit(group):
    if is_crossbow(group[0]):
        return OUR_LIMIT
    return SLOW_LIMIT if side_of(group[0]) in SLOW else QUICK_LIMIT


def limit_of(group):
    """Seconds until all must be measured."""
    answers = 0 if is_crossbow(group[0]) else 2 * len(group)
    return ready_limit(group) + answers * ANSWER_LIMIT


def measure_crossbow(job, limit):
    learners = job.fields["variant"]
    command = [CROSSBOW, "bench", "--json", "--device", "cuda", *options_of(job.fields)]
    command += ["--learners", learners, "--sync", "none" if learners == "1" else "sma"]
    command += ["--seconds", str(SECONDS)]
    parameters = NETS[job.fields["model"]][2]
    answer, _ = ask_crossbow(command, parameters, limit, ours.environment())
    return {name: answer[name] for name in ("images_per_second", "learners")}


def measure_peer(process):
    rates = []
    for _ in range(2):
        process.ask(SECONDS)
        rates.append(process.answer(ANSWER_LIMIT)["images_per_second"])
    return {"images_per_second": max(rates)}


def tried(function, *arguments):
    try:
        return function(*arguments)
    except Failed as failure:
        return failure


def outcomes(group, pool):
    """A job and its figures, or why it has none."""
    if is_crossbow(group[0]):
        yield group[0], tried(measure_crossbow, group[0], ready_limit(group))
        return
    processes = [pool.start(job) for job in group]
    for process in processes:
        process.ask(WARM_UP)
    end = time.monotonic() + ready_limit(group)
    ready = [tried(p.prepared, max(1, end - time.monotonic())) for p in processes]
    for job, process, found in zip(group, processes, ready):
        yield job, found if isinstance(found, Failed) else tried(measure_peer, process)
    for process in processes:
        process.kill()  # it ends while the next side prepares


def stage(args, results, left):
    def is_open(job):
        return job.fields["side"] in ("crossbow", *args.peers) and not results.find(job)

    groups, whole = order(args, is_open), True
    with contextlib.closing(Pool()) as pool:
        for number, group in enumerate(groups):
            if left() < limit_of(group):
                whole = False
                continue
            following = [job for later in groups[number:] for job in later if not is_crossbow(job)]
            for job in following[: len(group) + AHEAD]:
                pool.start(job)
            for job, found in outcomes(group, pool):
                record = {"failure": str(found)} if isinstance(found, Failed) else found
                results.add(job, record)
                rate = record.get("images_per_second")
                text = f"{rate:,.0f} images/s" if rate else record["failure"]
                log(f"  {' '.join(map(str, job.fields.values()))}: {text}")
    return whole
