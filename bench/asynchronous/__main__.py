"""What asynchronous nodes gain: time to accuracy on the virtual clock beside learners that wait
for each other, speed beside a straggler, and the speed of Hogwild.

Every finished run is a line of the results, so a command may be stopped at any time; given again,
it goes on where it was.
"""

import os
import pathlib
import signal
import sys

from bench import CROSSBOW, ROOT, listed, parser_of, run_main
from bench.asynchronous import ahead, hogwild, stragglers
from bench.asynchronous.jobs import ASYNCHRONOUS, Runner
from bench.learning.results import Results

EXAMPLES = """
Examples:
  nice -n 19 python3 -m bench.asynchronous ahead --mnist DIR              may share the machine
  nice -n 19 python3 -m bench.asynchronous ahead --data digits --model logistic \\
    --algorithms hogwild,sgp,ssgd --nodes 2,4 --seeds 1 --target 0.95     minutes
  python3 -m bench.asynchronous stragglers --data digits                  on an idle machine
  python3 -m bench.asynchronous hogwild                                   on an idle machine
  python3 -m bench.asynchronous hogwild --torch-python build/peers-venv/bin/python
  python3 -m bench.asynchronous table                                     of all results
"""
STAGES = {"ahead": ahead, "stragglers": stragglers, "hogwild": hogwild}


def add_command(commands, name, about, details=""):
    parser = commands.add_parser(name, help=about, description=f"{about}. {details}")
    path, about = ROOT / "build/asynchronous/results.jsonl", "a JSON line per finished run"
    parser.add_argument("--results", type=pathlib.Path, default=path, metavar="FILE", help=about)
    return parser


def add_training(commands, name, about, details, epochs):
    parser = add_command(commands, name, about, details)
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument("--mnist", metavar="DIR", help="folder of MNIST's gzipped IDX files")
    about = "or another data set of ten classes, as --data of crossbow train names it"
    data.add_argument("--data", metavar="NAME[:DIR]", help=about)
    add = parser.add_argument
    add("--model", default="lenet", metavar="NAME", help="default lenet")
    about = f"passes over the training images (default {epochs})"
    add("--epochs", type=int, default=epochs, metavar="N", help=about)
    return add


def add_algorithms(add, names):
    about = f"as --sync of crossbow train (default {','.join(names)})"
    add("--algorithms", type=listed(str), default=names, metavar="NAME,NAME", help=about)


def add_ahead(commands):
    details = (
        "It does not matter how busy the machine is. All rates are tried with seed 1, the best of "
        "them with the other seeds."
    )
    about = "Epochs and virtual time to accuracy, with and without a straggler, by algorithm"
    add = add_training(commands, "ahead", about, details, 5)
    add("--target", type=float, default=0.99, metavar="A", help="test accuracy (default 0.99)")
    add_algorithms(add, ahead.ALGORITHMS)
    add("--nodes", type=listed(int), default=ahead.NODES, metavar="K,K", help="default 2,4,8,16")
    add("--seeds", type=int, default=3, metavar="N", help="seeds 1 to N (default 3)")
    words = ",".join(map(str, ahead.RATES))
    about = (
        f"--lr of crossbow train (default {words}), where default leaves it out; algorithms "
        "without momentum take these times 1 / (1 - the recipe's momentum)"
    )
    add("--lr-values", type=listed(ahead.rate), default=ahead.RATES, metavar="R,R", help=about)


def add_stragglers(commands):
    details = "It needs the machine idle."
    about = "Speed of a node beside one that takes four times as long, on the real clock"
    add = add_training(commands, "stragglers", about, details, 1)
    add_algorithms(add, stragglers.ALGORITHMS)
    add("--rounds", type=int, default=3, metavar="N", help="runs of each kind (default 3)")


def add_hogwild(commands):
    about = "Speed of two Hogwild nodes, two sma learners and two processes apart"
    details = f"The net is {hogwild.MODEL}. It needs the machine idle."
    add = add_command(commands, "hogwild", about, details).add_argument
    add("--batches", type=listed(int), default=[1, 16], metavar="N,N", help="default 1,16")
    add("--seconds", type=float, default=5, help="of each side in each round (default 5)")
    add("--rounds", type=int, default=5, metavar="N", help="default 5")
    about = "a Python that has torch, to measure PyTorch's Hogwild as well"
    add("--torch-python", metavar="PATH", help=about)


def parse_arguments():
    parser = parser_of("bench.asynchronous", __doc__, EXAMPLES)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_ahead(commands)
    add_stragglers(commands)
    add_hogwild(commands)
    add_command(commands, "table", "Markdown tables of all results")
    args = parser.parse_args()
    if args.command != "table":
        check(args, parser.error)
    return args


def check(args, error):
    if not os.access(CROSSBOW, os.X_OK):
        error(f"no program {CROSSBOW}: build the release preset")
    args.cpus = sorted(os.sched_getaffinity(0))
    if args.command == "hogwild":
        if len(args.cpus) < 2:
            error("two processes need two CPUs")
        return
    if args.mnist:
        if not os.path.isdir(args.mnist):
            error(f"no folder {args.mnist}")
        args.data = f"mnist:{args.mnist}"
    if args.command == "stragglers":
        for name in set(args.algorithms) - set(ASYNCHRONOUS):
            error(f"{name} has no nodes: choose from {', '.join(ASYNCHRONOUS)}")


def print_tables(stages, results):
    parts = [part for stage in stages for part in stage.tables(results)]
    print("\n".join(parts) if parts else "No results yet.")


def main():
    args = parse_arguments()
    results = Results(args.results)
    if args.command == "table":
        return print_tables(STAGES.values(), results)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary folders go
    runner, stage = Runner(args, results), STAGES[args.command]
    stage.run(runner, args)
    print_tables([stage], results)
    if runner.failures:
        sys.exit(f"{runner.failures} runs failed, as said above; given again, it tries only them")


if __name__ == "__main__":
    run_main(main)
