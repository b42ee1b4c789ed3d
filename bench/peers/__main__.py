"""Crossbow's training speed beside PyTorch's, TensorFlow's and JAX's, on this machine in one go.

Installs the peers into build/peers-venv (about 8 GB, removed with that folder), then takes net by
net and batch by batch: each peer is tried in every way its users would, the quickest way is kept,
and then all sides are measured in turn for some rounds. The table holds the medians. Nothing else
should run on the machine meanwhile.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

from bench import CROSSBOW, PEERS_PYTHON, Failed, listed, log, parser_of, run_main, warn_if_busy
from bench.nets import NETS
from bench.peers import report
from bench.peers.peer import MATMUL_SIZE, VARIANTS, variants
from bench.peers.sides import Crossbow, IllegalInstruction, Peers
from bench.processes import keep_freed_memory

PROBE_SECONDS = 2  # of a variant's trial


def install():
    """Creates the virtual environment, unless it already holds what requirements.txt asks for."""
    venv = PEERS_PYTHON.parent.parent
    wanted = pathlib.Path(__file__).with_name("requirements.txt")
    installed = venv / "installed-requirements.txt"
    if installed.exists() and installed.read_text() == wanted.read_text():
        return
    log(f"Installing the peers into {venv} (several gigabytes; minutes) ...")
    pip = [PEERS_PYTHON, "-m", "pip", "install", "-r", wanted]
    try:
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run(pip, check=True, stdout=sys.stderr)
    except subprocess.CalledProcessError as error:
        sys.exit(
            f"{error}: installing the peers needs python3 with its venv module "
            "(Debian: python3-venv) and PyPI"
        )
    installed.write_text(wanted.read_text())


def quickest_variant(args, peer, case, result, keep):
    """The running Peer of the variant that trains most images in a short trial, or None; the others
    are ended."""
    best, best_rate = None, 0.0
    for variant in variants(peer, case["model"], args.quick):
        side = Peers(peer, case, variant, [args.cpus])
        try:
            seconds = side.start()
            rate = side.measure(PROBE_SECONDS)
        except Failed as failure:
            side.stop()
            result["notes"].append(f"{report.NAMES[peer]}, {variant}: {failure}")
            log(f"  {peer}, {variant}: skipped, {failure}")
            continue
        log(f"  {peer}, {variant}: {rate:.1f} images/s (ready after {seconds:.0f} s)")
        result["probes"].setdefault(peer, {})[variant] = rate
        loser = side if rate <= best_rate else best
        if rate > best_rate:
            best, best_rate = side, rate
        if loser:
            loser.stop()
    if best:
        keep.callback(best.stop)
    return best


def start_sides(args, case, result, keep):
    cpus = len(args.cpus)
    sides = {"crossbow": Crossbow(case, cpus, 1), "crossbow_per_cpu": Crossbow(case, cpus, cpus)}
    for peer in args.peers:
        if case["precision"] == "bf16" and peer != "pytorch":
            continue
        best = quickest_variant(args, peer, case, result, keep)
        if not best:
            continue
        sides[peer] = best
        result["variants"][peer] = best.variant
        if peer == "pytorch":
            groups = [[cpu] for cpu in args.cpus]
            alone = Peers(peer, case, best.variant, groups)
            keep.callback(alone.stop)
            try:
                alone.start()
                sides["pytorch_per_cpu"] = alone
            except Failed as failure:
                result["notes"].append(f"{report.NAMES['pytorch_per_cpu']}: {failure}")
                log(f"  pytorch_per_cpu: {failure}")
    return sides


def measure_case(args, case):
    log(f"{case['model']}, {case['precision']}, batch {case['batch']}")
    result = {**case, "probes": {}, "variants": {}, "rounds": {}, "notes": []}
    with contextlib.ExitStack() as keep:
        sides = start_sides(args, case, result, keep)
        order = list(sides)
        for number in range(args.rounds):
            for name in order[number % len(order) :] + order[: number % len(order)]:
                if name not in sides:
                    continue
                try:
                    rate = sides[name].measure(args.seconds)
                    result["rounds"].setdefault(name, []).append(rate)
                except Failed as failure:
                    result["notes"].append(f"{report.NAMES[name]}: {failure}")
                    log(f"  {name}: {failure}")
                    del sides[name]
        ours = {name: side for name, side in sides.items() if isinstance(side, Crossbow)}
        result["reached"] = {name: side.reached for name, side in ours.items()}
    for name, rates in result["rounds"].items():
        log(f"  {name}: " + " ".join(f"{rate:.1f}" for rate in rates))
    return result


def measure_matmul(args):
    """GFLOP/s of a large product, by precision: how far two machines' tables compare.

    Some virtual machines offer AMX but hide its description (CPUID leaf 1D), and oneDNN's use of it
    then ends in an illegal instruction. There every side is told to do without."""
    rates = {}
    for precision in ("bf16", "f32"):
        case = {"model": "matmul", "batch": 1, "precision": precision}
        side = Peers("pytorch", case, VARIANTS["pytorch"][0], [args.cpus])
        try:
            side.start()
            best = max(side.measure(2.0) for _ in range(3))
            rates[f"pytorch {precision}"] = best * 2 * MATMUL_SIZE**3 / 1e9
        except IllegalInstruction:
            os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"
            log("AMX is broken here: ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 for all sides")
        except Failed as failure:
            log(f"  matrix product, {precision}: {failure}")
        side.stop()
    return rates


def cases(args):
    """f32 for all, and bf16 for resnet-32 at batch 16."""
    for model in args.models:
        for batch in args.batches:
            for precision in ["f32"] + ["bf16"] * ((model, batch) == ("resnet-32", 16)):
                yield {"model": model, "batch": batch, "precision": precision}


def parse_arguments():
    parser = parser_of("bench.peers", __doc__)
    add, models = parser.add_argument, ["lenet", "resnet-32", "mlp", "vgg-16"]
    add("--models", type=listed(str), default=models, metavar="M,M")
    add("--batches", type=listed(int), default=[1, 4, 16, 64], metavar="N,N")
    peers = list(VARIANTS)
    add("--peers", type=listed(str), default=peers, metavar="P,P", help=", ".join(peers))
    add("--seconds", type=float, default=5, help="of each side in each round (default 5)")
    add("--rounds", type=int, default=3)
    add("--quick", action="store_true", help="without PyTorch's compiled variants, a minute each")
    about = "also write the table there, and all that was measured to FILE.json"
    add("--out", type=pathlib.Path, metavar="FILE.md", help=about)
    args = parser.parse_args()
    for kind, chosen, known in (("model", args.models, NETS), ("peer", args.peers, VARIANTS)):
        for name in set(chosen) - set(known):
            parser.error(f"no {kind} {name}: choose from {', '.join(known)}")
    if not os.access(CROSSBOW, os.X_OK):
        parser.error(f"no program {CROSSBOW}: build the release preset")
    args.cpus = sorted(os.sched_getaffinity(0))
    return args


def main():
    args = parse_arguments()
    install()
    load = os.getloadavg()[0]
    warn_if_busy()
    keep_freed_memory()
    products = measure_matmul(args)
    machine = report.describe_machine(len(args.cpus), load)
    results = {"machine": machine, "cases": [], "matmul_gflops": products}
    for case in cases(args):
        results["cases"].append(measure_case(args, case))
        if args.out:  # after every case, so that a run cut short leaves what it has
            args.out.write_text(report.markdown(results))
            args.out.with_suffix(".json").write_text(json.dumps(results, indent=1) + "\n")
    print(report.markdown(results))


if __name__ == "__main__":
    run_main(main)
