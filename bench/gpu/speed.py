"""Images a second of training steps: Crossbow's learners beside PyTorch and JAX, one after the
other on the GPU. A line of the results is one side of one case; what is there is not run again."""

import os
import sys

from bench import CROSSBOW, Failed, log, table
from bench.gpu import ours
from bench.gpu.jobs import Job, fields_of
from bench.learning.results import select
from bench.nets import NETS
from bench.peers.sides import Process, TooLate, ask_crossbow, options_of

SECONDS = 2.0
LEARNERS = [1, 8, 4, 16, 2, 32]
# In the order in which they are measured, each in all cases; what takes long to compile comes last.
QUICK = [
    *(("crossbow", str(k)) for k in LEARNERS[:4]),
    *(("pytorch", "eager"), ("pytorch", "captured")),
]
EXACT = [("pytorch", "eager nchw"), ("pytorch", "captured nchw")]  # of f32 alone
SLOW = [
    *(("pytorch", "captured compile"), ("jax", "jit nhwc"), ("pytorch", "reduce")),
    *(("pytorch", "autotune"), ("pytorch", "compile")),
]
PEERS = ("pytorch", "jax")
PEER_LIMIT = 240  # seconds, compiling included
# What is asked of the fastest number of learners, as multiples: of PyTorch as it comes, of the best
# single process, of one learner.
ASKED = {"lenet": (4, 1.5, 2), "resnet-32": (4, 1.5, 2), "vgg-16": (None, 1.2, None)}


def cases(models, batches, precisions):
    return [
        {"model": m, "batch": b, "precision": p}
        for b in batches
        for p in precisions
        for m in models
    ]


def measure_crossbow(case, learners, limit):
    command = [CROSSBOW, "bench", "--json", "--device", "cuda", *options_of(case)]
    command += ["--learners", str(learners), "--sync", "none" if learners == 1 else "sma"]
    command += ["--seconds", str(SECONDS)]
    parameters = NETS[case["model"]][2]
    answer, _ = ask_crossbow(command, parameters, limit, ours.environment())
    return answer["images_per_second"]


def measure_peer(case, peer, variant, limit):
    module, cpus = f"bench.gpu.{peer}_peer", os.sched_getaffinity(0)
    process = Process(sys.executable, module, case, variant, cpus)
    try:
        process.prepared(limit)
        rates = []
        for _ in range(2):
            process.ask(SECONDS)
            rates.append(process.measured(SECONDS))
        return max(rates)
    finally:
        process.stop()


def sides():
    """(name, variant) in the order in which they are measured."""
    return [*QUICK, *EXACT, *(("crossbow", str(k)) for k in LEARNERS[4:]), *SLOW]


def makes_sense(case, side, variant):
    if (side, variant) in EXACT:
        return case["precision"] == "f32" and len(NETS[case["model"]][0]) == 3
    return side != "jax" or case["precision"] != "bf16"


def measure(case, side, variant, limit):
    if side == "crossbow":
        return measure_crossbow(case, int(variant), limit)
    return measure_peer(case, side, variant, limit)


def measure_and_note(job, case, results, left):
    """False if there was too little time."""
    limit, text = min(PEER_LIMIT, left()), " ".join(map(str, job.fields.values()))
    try:
        rate = measure(case, job.fields["side"], job.fields["variant"], limit)
    except Failed as failure:
        log(f"  {text}: {failure}")
        if limit < PEER_LIMIT and isinstance(failure, TooLate):
            return False
        results.add(job, {"failure": str(failure)})
        return True
    results.add(job, {"images_per_second": rate})
    log(f"  {text}: {rate:,.0f} images/s")
    return True


def stage(args, results, left):
    all_cases = cases(args.models, args.batches, args.precisions)
    for side, variant in sides():
        for case in all_cases:
            job = Job("speed", {**case, "side": side, "variant": variant})
            wanted = side == "crossbow" or side in args.peers
            if not wanted or not makes_sense(case, side, variant) or results.find(job):
                continue
            if left() < 15 or not measure_and_note(job, case, results, left):
                return False
    return True


def best(rates, side):
    """(rate, variant), or None."""
    found = [(rate, variant) for (s, variant), rate in rates.items() if s == side]
    return max(found, default=None)


def row(case, rates):
    ours, one = best(rates, "crossbow"), rates.get(("crossbow", "1"))
    eager = rates.get(("pytorch", "eager"))
    peers = max((f for f in (best(rates, p) for p in PEERS) if f), default=None)

    def times(other):
        return f"{ours[0] / other:.2f}×" if ours and other else "–"

    def shown(found):
        return f"{found[0]:,.0f} ({found[1]})" if found else "–"

    asked = ASKED.get(case["model"], (None, 1.2, None))
    wanted = ", ".join(f"{a}×" if a else "–" for a in asked)
    return [
        *(case["model"], case["batch"], case["precision"], shown(ours)),
        *(f"{one:,.0f}" if one else "–", f"{eager:,.0f}" if eager else "–", shown(peers)),
        *(times(eager), times(peers and peers[0]), times(one), wanted),
    ]


def tables(results):
    by_case = {}
    failures = []
    for record in select(results.lines.values(), stage="speed"):
        key = fields_of(record)
        side = (key.pop("side"), key.pop("variant"))
        if "failure" in record:
            failures.append(f"- {key['model']} {side[0]} {side[1]}: {record['failure']}")
        else:
            by_case.setdefault(tuple(key.items()), {})[side] = record["images_per_second"]
    if not by_case and not failures:
        return
    header = [
        *("net", "batch", "precision", "learners, best (k)", "one learner", "PyTorch, eager"),
        *("best process (way)", "to eager", "to best", "to one learner", "asked"),
    ]
    yield "## Training steps, images/s\n\n" + table(
        header, [row(dict(case), rates) for case, rates in by_case.items()]
    )
    for case, rates in by_case.items():
        counted = sorted((int(v), rate) for (side, v), rate in rates.items() if side == "crossbow")
        rows = [[k, f"{rate:,.0f}"] for k, rate in counted]
        yield f"{' '.join(str(v) for _, v in case)}:\n\n" + table(["learners", "images/s"], rows)
    if failures:
        yield "Without a figure:\n\n" + "\n".join(failures) + "\n"
