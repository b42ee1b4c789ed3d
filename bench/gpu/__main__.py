"""Tries Crossbow on this machine's GPU: tests, NVIDIA's checkers, and speed beside the PyTorch and
JAX that are installed here; learners beside processes, a CPU and a GPU that train one model, and
seconds to an accuracy. Needs neither root nor a network.

What is done is a line of results.jsonl, so the command may be stopped or cut off at any time; given
again, it goes on where it was. report.md beside it holds the tables, pictures are there too, and
work/ has what the tests said.

Two sets are neither built in nor packed; bring them beside the archive, unpack it, and put them into
its folder, from where names are looked up: w8a (w8a.gz, for --w8a) and CIFAR-10's binary files (the
folder cifar-10-batches-bin, for --cifar). Without them the runs that need them are left out.
"""

import importlib.util
import json
import os
import pathlib
import signal
import sys
import time

from bench import CROSSBOW, ROOT, listed, log, parser_of, run_main
from bench.gpu import accuracy, accuracy_tables, first_step, hogbatch, hogbatch_tables, machine
from bench.gpu import ours, processes, speed, speed_plots, speed_tables, tests
from bench.gpu.jobs import Job, fields_of
from bench.gpu.order import LEARNERS
from bench.learning.results import Results, select
from bench.nets import NETS

STAGES = {
    "tests": tests.stage,
    "speed": speed.stage,
    "first-step": first_step.stage,
    "checks": tests.check_stage,
    "processes": processes.stage,
    "hogbatch": hogbatch.stage,
    "accuracy": accuracy.stage,
}
TABLES = (tests, speed_tables, first_step, processes, hogbatch_tables, accuracy_tables)
EXAMPLES = """
Examples:
  scripts/gpu-check --pack build/gpu-check.tar.gz   for a machine that cannot build: unpack it there
  scripts/gpu-check --out results                   there, or where Crossbow was built
  scripts/gpu-check --stages speed --models lenet --batches 16 --precisions f32
  scripts/gpu-check --stages hogbatch --w8a w8a.gz --train-seconds 4 --seeds 3
  scripts/gpu-check --stages accuracy --cifar cifar-10-batches-bin --epochs 30 --seeds 3
"""


def parse_arguments():
    parser = parser_of("bench.gpu", __doc__, EXAMPLES)
    parser.prog = os.environ.get("GPU_CHECK", parser.prog)
    add = parser.add_argument
    out = ROOT / "build/gpu-check"
    add("--out", type=pathlib.Path, default=out, metavar="DIR", help="default build/gpu-check")
    about = "begin nothing whose own limit is later than this (default 450)"
    add("--seconds", type=float, default=450, metavar="S", help=about)
    add("--stages", type=listed(str), default=list(STAGES), metavar="S,S", help=", ".join(STAGES))
    models = ["resnet-32", "lenet", "vgg-16", "mlp"]
    add("--models", type=listed(str), default=models, metavar="M,M", help=f"of {', '.join(NETS)}")
    add("--batches", type=listed(int), default=[16, 64, 32], metavar="N,N", help="default 16,64,32")
    precisions = ["tf32", "bf16", "f32"]
    add("--precisions", type=listed(str), default=precisions, metavar="P,P", help="default all")
    about = f"default {','.join(map(str, LEARNERS))}"
    add("--learners", type=listed(int), default=LEARNERS, metavar="N,N", help=about)
    add("--peers", type=listed(str), metavar="P,P", help="default: those that are installed")
    about = "of each run of hogbatch (default 12)"
    add("--train-seconds", type=float, default=12, metavar="S", help=about)
    add("--w8a", type=pathlib.Path, metavar="FILE", help="w8a in LIBSVM's format, for hogbatch")
    add("--cifar", type=pathlib.Path, metavar="DIR", help="CIFAR-10's binary files, for accuracy")
    add("--epochs", type=int, default=30, metavar="N", help="of accuracy, at most (default 30)")
    about = "of accuracy and hogbatch, 1 to N (default 1)"
    add("--seeds", type=int, default=1, metavar="N", help=about)
    args = parser.parse_args()
    for option, chosen, known in (("stages", args.stages, STAGES), ("models", args.models, NETS)):
        for name in set(chosen) - set(known):
            parser.error(f"--{option} {name}: choose from {', '.join(known)}")
    if args.peers is None:
        modules = {"pytorch": "torch", "jax": "jax"}
        args.peers = [p for p, module in modules.items() if importlib.util.find_spec(module)]
    return args


def report(args, results):
    machines = select(results.lines.values(), stage="machine")
    lines = [f"- {name}: {text}" for r in machines for name, text in fields_of(r).items()]
    parts = ["# Crossbow on a GPU\n", "\n".join(lines) + "\n"]
    parts += [text for module in TABLES for text in module.tables(results)]
    (args.out / "report.md").write_text("\n".join(parts))
    speed_plots.plot(results.lines.values(), args.out)


def main():
    start = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # and end what runs
    args = parse_arguments()
    answer = machine.said([CROSSBOW, "devices", "--json"], ours.environment())
    if not answer:
        sys.exit(f"gpu-check: {CROSSBOW} does not run here")
    gpus = next(kind for kind in json.loads(answer)["kinds"] if kind["name"] == "cuda")
    if not gpus["devices"]:
        sys.exit(f"gpu-check: no GPU: {gpus['why_none']}")
    args.work = args.out / "work"
    args.work.mkdir(parents=True, exist_ok=True)
    results = Results(args.out / "results.jsonl")
    here = Job("machine", machine.description())
    if not results.find(here):
        results.add(here, {})
    before = len(results.lines)
    done = True
    try:
        for name in args.stages:
            log(f"{name}, {time.monotonic() - start:.0f} s")
            done &= STAGES[name](args, results, lambda: args.seconds - (time.monotonic() - start))
    finally:
        report(args, results)
    if done:
        how = ""
    elif len(results.lines) > before:
        how = ": not all; the same command goes on"
    else:
        how = f": what is left needs more than --seconds {args.seconds:g}"
    log(f"{args.out}/report.md{how}")


if __name__ == "__main__":
    run_main(main)
