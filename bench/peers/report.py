"""What `run` measured as a Markdown page, and the machine it was measured on."""

import datetime
import os
import platform
import statistics
import subprocess

import common

NAMES = {
    "crossbow": "Crossbow, one learner",
    "crossbow_per_cpu": "Crossbow, a learner per CPU",
    "pytorch": "PyTorch",
    "tensorflow": "TensorFlow",
    "jax": "JAX",
    "pytorch_per_cpu": "PyTorch, a process per CPU",
}

OURS = ("crossbow", "crossbow_per_cpu")


def output_of(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def file_field(path, key):
    with open(path, encoding="utf-8") as lines:
        return next(
            (
                line.split(":" if ":" in line else "=", 1)[1].strip().strip('"')
                for line in lines
                if line.startswith(key)
            ),
            "unknown",
        )


def describe_machine(python, root, cpus, load):
    packages = ("torch", "tensorflow", "jax", "jaxlib")
    versions = output_of(
        [
            python,
            "-c",
            "import importlib.metadata as m\n"
            f"print(', '.join(f'{{p}} {{m.version(p)}}' for p in {packages}))",
        ]
    )
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": file_field("/proc/cpuinfo", "model name"),
        "cpus_used": cpus,
        "memory": f"{int(file_field('/proc/meminfo', 'MemTotal').split()[0]) / 2**20:.0f} GiB",
        "system": f"{file_field('/etc/os-release', 'PRETTY_NAME')}, Linux {platform.release()}",
        "load_before": round(load, 1),
        "onednn_limit": os.environ.get("ONEDNN_MAX_CPU_ISA", "none"),
        "versions": f"{versions}, Python {platform.python_version()}",
        "crossbow_commit": output_of(["git", "-C", root, "describe", "--always", "--dirty"]),
    }


def table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def number(rate):
    return "–" if rate is None else f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def summary_row(case, columns):
    """The best single process is bold; a process per CPU never synchronises and does not count."""
    medians = {side: statistics.median(rates) for side, rates in case["rounds"].items()}
    peers = {side: rate for side, rate in medians.items() if side in common.SCRIPTS}
    best = max(peers, key=peers.get, default=None)

    def ratio(side):
        return f"**{medians[side] / peers[best]:.2f}×**" if best and side in medians else "–"

    def reached(side):
        shares = case["reached"].get(side)
        return f"{statistics.median(shares):.0f} %" if shares else "–"

    cells = [
        f"**{number(medians[side])}**" if side == best else number(medians.get(side))
        for side in columns
    ]
    spread = max(
        ((max(rates) - min(rates)) / medians[side] for side, rates in case["rounds"].items()),
        default=0,
    )
    return [
        case["model"],
        case["precision"],
        str(case["batch"]),
        *cells,
        *(cell(side) for side in OURS for cell in (ratio, reached)),
        f"{spread:.0%}",
    ]


def probe_rows(cases, peer):
    variants = common.VARIANTS[peer]
    for case in cases:
        rates = case["probes"].get(peer, {})
        best = case["variants"].get(peer)
        yield [
            case["model"],
            case["precision"],
            str(case["batch"]),
            *(f"**{number(rates[v])}**" if v == best else number(rates.get(v)) for v in variants),
        ]


def markdown(results):
    machine, cases = results["machine"], results["cases"]
    columns = [side for side in NAMES if any(side in case["rounds"] for case in cases)]
    parts = [
        "# Training speed beside PyTorch, TensorFlow and JAX\n",
        "Images/s of whole training steps (forward, backward, SGD with momentum and weight decay) "
        "on synthetic data in memory; medians of rounds in which the sides took turns. Bold: the "
        "best peer in one process, which the ratios are against. A learner per CPU: they synchronise "
        "by model averaging (`--sync sma`) after every batch. Of its "
        "bound: the share of the speed that `crossbow bench` finds possible here. Spread: the largest "
        "(max − min) / median of a side's rounds. Made by `bench/peers/run`.\n",
        table(
            [
                "net",
                "precision",
                "batch",
                *(NAMES[side] for side in columns),
                *("one learner / best peer", "of its bound"),
                *("learners / best peer", "of their bound"),
                "spread",
            ],
            [summary_row(case, columns) for case in cases],
        ),
        "## Machine\n",
        f"{machine['cpus_used']} CPUs of {machine['cpu']}, {machine['memory']}, "
        f"{machine['system']}; load before the "
        f"run {machine['load_before']}; {machine['date']}. {machine['versions']}; Crossbow at "
        f"{machine['crossbow_commit']}.\n",
        f"Limit set on oneDNN's instruction set (ONEDNN_MAX_CPU_ISA): {machine['onednn_limit']}. "
        f"GFLOP/s of a {common.MATMUL_SIZE}² matrix product: "
        + ", ".join(
            f"{NAMES[key.split()[0]]} {key.split()[1]} {rate:.0f}"
            for key, rate in results["matmul_gflops"].items()
        )
        + ".\n",
        "## Every way tried\n",
        "Images/s in a short trial of each variant; the best (bold) then took part in the rounds."
        "\n",
    ]
    for peer in common.SCRIPTS:
        if any(peer in case["probes"] for case in cases):
            tried = [case for case in cases if peer in case["probes"]]
            parts.append(
                f"{NAMES[peer]}:\n\n"
                + table(
                    ["net", "precision", "batch", *common.VARIANTS[peer]], probe_rows(tried, peer)
                )
            )
    notes = [
        f"- {case['model']}, {case['precision']}, batch {case['batch']}: {note}"
        for case in cases
        for note in case["notes"]
    ]
    if notes:
        parts.append("## Skipped and failed\n\n" + "\n".join(notes) + "\n")
    return "\n".join(parts)
