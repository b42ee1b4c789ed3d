"""What was measured as a Markdown page, and the machine it was measured on."""

import datetime
import os
import platform
import statistics
import subprocess

from bench import PEERS_PYTHON, ROOT, table
from bench.peers.peer import MATMUL_SIZE, VARIANTS

NAMES = {
    "crossbow": "Crossbow, one learner",
    "crossbow_per_cpu": "Crossbow, a learner per CPU",
    "pytorch": "PyTorch",
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "pytorch_per_cpu": "PyTorch, a process per CPU",
}
OURS = ("crossbow", "crossbow_per_cpu")
PAGE = """\
# Training speed beside PyTorch, TensorFlow and JAX

Images/s of whole training steps (forward, backward, SGD with momentum and weight decay) \
on synthetic data in memory; medians of rounds in which the sides took turns. Bold: the \
best peer in one process, which the ratios are against. A learner per CPU: they synchronise \
by model averaging (`--sync sma`) after every batch. Of its \
bound: the share of the speed that `crossbow bench` finds possible here. Spread: the largest \
(max − min) / median of a side's rounds. Made by `python3 -m bench.peers`.

{summary}
## Machine

{cpus_used} CPUs of {cpu}, {memory}, {system}; load before the run {load_before}; {date}. \
{versions}; Crossbow at {crossbow_commit}.

Limit set on oneDNN's instruction set (ONEDNN_MAX_CPU_ISA): {onednn_limit}. GFLOP/s of a \
{matmul_size}² matrix product: {matmul}.

## Every way tried

Images/s in a short trial of each variant; the best (bold) then took part in the rounds.
"""


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def file_field(path, key):
    with open(path, encoding="utf-8") as lines:
        line = next((line for line in lines if line.startswith(key)), "=unknown")
    return line.split(":" if ":" in line else "=", 1)[1].strip().strip('"')


def describe_machine(cpus, load):
    versions = (
        "import importlib.metadata as m\n"
        "print(', '.join(f'{p} {m.version(p)}' for p in ('torch', 'tensorflow', 'jax', 'jaxlib')))"
    )
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": file_field("/proc/cpuinfo", "model name"),
        "cpus_used": cpus,
        "memory": f"{int(file_field('/proc/meminfo', 'MemTotal').split()[0]) / 2**20:.0f} GiB",
        "system": f"{file_field('/etc/os-release', 'PRETTY_NAME')}, Linux {platform.release()}",
        "load_before": round(load, 1),
        "onednn_limit": os.environ.get("ONEDNN_MAX_CPU_ISA", "none"),
        "versions": f"{output_of([PEERS_PYTHON, '-c', versions])}, "
        f"Python {platform.python_version()}",
        "crossbow_commit": output_of(["git", "-C", ROOT, "describe", "--always", "--dirty"]),
    }


def number(rate, bold=False):
    text = "–" if rate is None else f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"
    return f"**{text}**" if bold else text


def name_of(case):
    return [case["model"], case["precision"], case["batch"]]


def summary_row(case, columns):
    """The best single process is bold; a process per CPU never synchronises and does not count."""
    medians = {side: statistics.median(rates) for side, rates in case["rounds"].items()}
    peers = {side: rate for side, rate in medians.items() if side in VARIANTS}
    best = max(peers, key=peers.get, default=None)

    def ratio(side):
        return f"**{medians[side] / peers[best]:.2f}×**" if best and side in medians else "–"

    def reached(side):
        shares = case["reached"].get(side)
        return f"{statistics.median(shares):.0f} %" if shares else "–"

    spreads = [(max(r) - min(r)) / medians[side] for side, r in case["rounds"].items()]
    return [
        *name_of(case),
        *(number(medians.get(side), side == best) for side in columns),
        *(cell(side) for side in OURS for cell in (ratio, reached)),
        f"{max(spreads, default=0):.0%}",
    ]


def probe_row(case, peer):
    rates, best = case["probes"][peer], case["variants"].get(peer)
    return [*name_of(case), *(number(rates.get(v), v == best) for v in VARIANTS[peer])]


def markdown(results):
    cases, case_header = results["cases"], ["net", "precision", "batch"]
    columns = [side for side in NAMES if any(side in case["rounds"] for case in cases)]
    header = [
        *(*case_header, *(NAMES[side] for side in columns)),
        *("one learner / best peer", "of its bound"),
        *("learners / best peer", "of their bound", "spread"),
    ]
    products = (key.split() + [rate] for key, rate in results["matmul_gflops"].items())
    page = PAGE.format(
        **results["machine"],
        summary=table(header, [summary_row(case, columns) for case in cases]),
        matmul_size=MATMUL_SIZE,
        matmul=", ".join(f"{NAMES[peer]} {kind} {rate:.0f}" for peer, kind, rate in products),
    )
    parts = [page]
    for peer in VARIANTS:
        rows = [probe_row(case, peer) for case in cases if peer in case["probes"]]
        if rows:
            parts.append(f"{NAMES[peer]}:\n\n" + table([*case_header, *VARIANTS[peer]], rows))
    notes = [
        f"- {case['model']}, {case['precision']}, batch {case['batch']}: {note}"
        for case in cases
        for note in case["notes"]
    ]
    if notes:
        parts.append("## Skipped and failed\n\n" + "\n".join(notes) + "\n")
    return "\n".join(parts)
