"""How quickly Crossbow learns: time to accuracy beside PyTorch and JAX, and epochs to accuracy of
many learners.

The whole takes hours. Every finished training run is a line of the results, so the command may be
stopped at any time; given again, it goes on where it was.
"""

import os
import pathlib
import signal
import sys

from bench import CROSSBOW, PEERS_PYTHON, ROOT, listed, parser_of, run_main
from bench.learning import accuracy, choice, defaults, efficiency, large, linear, names, pictures, report, tasks
from bench.learning.results import Results
from bench.learning.runner import Runner

EXAMPLES = """
Examples:
  nice -n 19 python3 -m bench.learning defaults --mnist DIR               may share the machine
  nice -n 19 python3 -m bench.learning efficiency --mnist DIR             may share the machine
  nice -n 19 python3 -m bench.learning large --cifar DIR --model lenet    may share the machine
  nice -n 19 python3 -m bench.learning names                              may share the machine
  nice -n 19 python3 -m bench.learning pictures --pictures DIR            may share the machine
  python3 -m bench.learning choice --mnist DIR                            on an idle machine
  python3 -m bench.learning accuracy --mnist DIR --stages speed           on an idle machine
  nice -n 19 python3 -m bench.learning accuracy --mnist DIR --stages tune may share it
  python3 -m bench.learning accuracy --mnist DIR                          the rest, on an idle one
  python3 -m bench.learning accuracy --cifar DIR --sides crossbow-1,pytorch
  python3 -m bench.learning linear                                        trains nothing: a minute
  python3 -m bench.learning report --out build/learning/report.md         tables, plots beside them
"""


def add_command(commands, name, about, details=""):
    parser = commands.add_parser(name, help=about, description=f"{about}. {details}")
    path, about = ROOT / "build/learning/results.jsonl", "a JSON line per finished job"
    parser.add_argument("--results", type=pathlib.Path, default=path, metavar="FILE", help=about)
    return parser.add_argument


def add_training(commands, name, about, details):
    add = add_command(commands, name, about, details)
    add("--mnist", metavar="DIR", help="folder of MNIST's gzipped IDX files")
    add("--cifar", metavar="DIR", help="or one of CIFAR-10 as images, train/CLASS/*, test/CLASS/*")
    add("--target", type=float, metavar="A", help="test accuracy (default 0.99, CIFAR-10: 0.78)")
    return add


def add_defaults(commands):
    details = "It does not matter how busy the machine is."
    about = "Epochs to accuracy of k learners, with no option but their number"
    add = add_training(commands, "defaults", about, details)
    add("--seeds", type=int, default=3, metavar="N", help="seeds 1 to N (default 3)")
    ks = efficiency.LEARNERS
    add("--learners", type=listed(int), default=ks, metavar="K,K", help="default 1,2,4,8,16")
    add("--sync", default=defaults.SYNC, metavar="NAME", help="as of crossbow train (default sma)")
    add("--lr-scaling", metavar="NAME", help="as of crossbow train (default: none given)")


def add_efficiency(commands):
    details = "It does not matter how busy the machine is."
    about = "Epochs to accuracy of k learners, by algorithm"
    add = add_training(commands, "efficiency", about, details)
    ks, names = efficiency.LEARNERS, efficiency.ALGORITHMS
    add("--seeds", type=int, default=1, metavar="N", help="seeds 1 to N (default 1)")
    add("--learners", type=listed(int), default=ks, metavar="K,K", help="default 1,2,4,8,16")
    about = f"as --sync of crossbow train, or {efficiency.TIGHT} (default {','.join(names)})"
    add("--algorithms", type=listed(str), default=names, metavar="NAME,NAME", help=about)


def add_large(commands):
    details = "It does not matter how busy the machine is."
    about = "Accuracy of k learners beside one learner whose batch is as large as all theirs"
    add = add_training(commands, "large", about, details)
    ks, names = large.LEARNERS, [*large.ALGORITHMS, *large.LARGE]
    about = "of CIFAR-10: resnet-20 (default) or lenet, which has no batch norm"
    add("--model", choices=("resnet-20", "lenet"), help=about)
    add("--seeds", type=int, default=3, metavar="N", help="seeds 1 to N (default 3)")
    add("--learners", type=listed(int), default=ks, metavar="K,K", help="default 16,32,64,128")
    about = f"as --sync of crossbow train, or one learner (default {','.join(names)})"
    add("--algorithms", type=listed(str), default=names, metavar="NAME,NAME", help=about)
    about = "further rates to try: 0.01 times k to these powers"
    add("--powers", type=listed(float), default=[], metavar="P,P", help=about)


def add_names(commands):
    about = "Accuracy of k learners on the built-in digits, by every algorithm's name alone"
    add = add_command(commands, "names", about, "It does not matter how busy the machine is.")
    add("--seeds", type=int, default=3, metavar="N", help="seeds 1 to N (default 3)")
    ks, algorithms = names.LEARNERS, names.ALGORITHMS
    add("--learners", type=listed(int), default=ks, metavar="K,K", help="default 1,2,4,8")
    about = f"as --sync of crossbow train (default {','.join(algorithms)})"
    add("--algorithms", type=listed(str), default=algorithms, metavar="NAME,NAME", help=about)


def add_pictures(commands):
    about = "Accuracy of resnet-18 on encoded pictures, beside PyTorch"
    add = add_command(commands, "pictures", about, "It does not matter how busy the machine is.")
    about = "folder that python3 -m bench.input.make --mixed wrote"
    add("--pictures", metavar="DIR", required=True, help=about)
    add("--seeds", type=int, default=3, metavar="N", help="seeds 1 to N (default 3)")
    names = list(pictures.WAYS)
    add("--ways", type=listed(str), default=names, metavar="W,W", help=f"of {','.join(names)}")


def arrangement(text):
    return text if text == "auto" else int(text)


def add_choice(commands):
    about = "Time to accuracy of --learners auto, beside fixed numbers of learners"
    add = add_training(commands, "choice", about, "It needs the machine idle.")
    add("--seeds", type=int, default=3, metavar="N", help="seeds 1 to N (default 3)")
    ks = choice.ARRANGEMENTS
    add("--learners", type=listed(arrangement), default=ks, metavar="K,K", help="default auto,1,2,3,4")


def add_accuracy(commands):
    details = (
        "The stage tune counts epochs, so that it may share the machine; speed and final need it "
        "idle. Each stage runs what it lacks of those before it."
    )
    add = add_training(commands, "accuracy", "Time to accuracy beside PyTorch and JAX", details)
    stages, batches = accuracy.STAGES, tasks.BATCHES
    add("--stages", type=listed(str), default=stages, metavar="S,S", help=f"of {','.join(stages)}")
    about = f"of {', '.join(accuracy.CONTESTANTS)} (default: all, CIFAR-10: all but jax)"
    add("--sides", type=listed(str), metavar="S,S", help=about)
    about = "only these ways to run a side that has several, such as eager"
    add("--variants", type=listed(str), default=[], metavar="V,V", help=about)
    add("--batches", type=listed(int), default=batches, metavar="N,N", help="default 16,64,256")
    about = "of the final stage, 1 to N (default 5, CIFAR-10: 3)"
    add("--seeds", type=int, metavar="N", help=about)


def parse_arguments():
    parser = parser_of("bench.learning", __doc__, EXAMPLES)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_defaults(commands)
    add_efficiency(commands)
    add_large(commands)
    add_names(commands)
    add_pictures(commands)
    add_choice(commands)
    add_accuracy(commands)
    about = "What the noise scale says of k learners on a quadratic loss, where all can be computed"
    commands.add_parser("linear", help=about, description=about + ": a table. It takes a minute.")
    add = add_command(commands, "report", "Markdown tables of all results, and plots")
    about = "write there, with plots as FILE-*.svg (default: standard output, no plots)"
    add("--out", type=pathlib.Path, metavar="FILE.md", help=about)
    args = parser.parse_args()
    if args.command not in ("report", "linear"):
        check(args, parser.error)
    return args


def check(args, error):
    if args.command == "names":
        args.task, args.data = "digits", None
    elif args.command == "pictures":
        args.task, args.data = "pictures", args.pictures
        for name in set(args.ways) - set(pictures.WAYS):
            error(f"no way {name}: choose from {', '.join(pictures.WAYS)}")
    else:
        check_task(args, error)
    if args.data and not os.path.isdir(args.data):
        error(f"no folder {args.data}")
    if not os.access(CROSSBOW, os.X_OK):
        error(f"no program {CROSSBOW}: build the release preset")
    args.cpus = sorted(os.sched_getaffinity(0))
    if args.command == "accuracy":
        check_accuracy(args, error)


def check_task(args, error):
    if bool(args.mnist) == bool(args.cifar):
        error("give one of --mnist DIR and --cifar DIR")
    args.task = "mnist" if args.mnist else "cifar"
    if args.command == "large" and args.cifar and args.model == "lenet":
        args.task = "cifar-lenet"
    args.data = args.mnist or args.cifar
    if args.target is None:
        args.target = tasks.TASKS[args.task].target


def check_accuracy(args, error):
    sides = accuracy.sides_of(args.task)
    args.seeds = args.seeds or tasks.TASKS[args.task].seeds
    args.sides = args.sides or sides
    variants = {v for name in sides for v in accuracy.CONTESTANTS[name].variants}
    for kind, chosen, known in (
        ("stage", args.stages, accuracy.STAGES),
        ("side", args.sides, sides),
        ("variant", args.variants, sorted(variants)),
    ):
        for name in set(chosen) - set(known):
            error(f"--{args.task} has no {kind} {name}: choose from {', '.join(known)}")
    if not PEERS_PYTHON.exists():
        error(f"no {PEERS_PYTHON}: python3 -m bench.peers installs the peers")


def main():
    args = parse_arguments()
    if args.command == "report":
        return report.write(Results(args.results), args.out)
    if args.command == "linear":
        return print(linear.report(), end="")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary folders go
    runner = Runner(args, Results(args.results))
    stages = {
        "defaults": defaults,
        "efficiency": efficiency,
        "large": large,
        "names": names,
        "pictures": pictures,
        "choice": choice,
        "accuracy": accuracy,
    }
    stages[args.command].run(runner, args)
    if runner.failures:
        sys.exit(f"{runner.failures} jobs failed, as said above; given again, it tries only them")


if __name__ == "__main__":
    run_main(main)
