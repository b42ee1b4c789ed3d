"""Two ranks of one thread beside one process that uses as many: images per second of the same training,
in turns. The ratio is the price of MPI. Of a synchronous algorithm the process has two devices of one
thread, so the bits are the same; of an asynchronous one it has two nodes. With --late the ranks' sums end
later, as over a slow network."""

import itertools
import os
import statistics
import tempfile

from bench import CROSSBOW, Failed, listed, log, parser_of, run_main, table, warn_if_busy
from bench.processes import answer_of

EXAMPLES = """
Examples:
  python3 -m bench.cluster.ranks                                  needs the machine idle
  python3 -m bench.cluster.ranks --nets lenet:8 --rounds 5
  python3 -m bench.cluster.ranks --nets lenet:1 --sync gossip-push,gossip-pull
  python3 -m bench.cluster.ranks --nets resnet-32 --sync sma,ssgd --late 0.5
  python3 -m bench.cluster.ranks --mpirun "mpirun --mca btl_vader_single_copy_mechanism none"
"""
NETS = ["lenet:1", "lenet:8", "mlp:1", "resnet-32:1"]
ONE, TWO, LATE = SIDES = ["one process", "two ranks", "two ranks, late sums"]
OF_NODES = ["ad-psgd", "async-eamsgd", "async-easgd", "downpour", "gossip-pull", "gossip-push", "sgp"]


def training(net, sync, batch):
    model, _, period = net.partition(":")
    return [
        *(CROSSBOW, "train", "--json", "--model", model, "--data", "digits", "--batch", batch),
        *(("--sync-period", period) if period else ()),
        *("--sync", sync, "--epochs", 1, "--threads-per-learner", 1),
    ]


def images_per_second(args, side, net, sync, delay=0):
    command = training(net, sync, args.batch)
    nodes = sync in OF_NODES
    command += ["--learners", 2 if nodes and side == ONE else 1]
    if not nodes:
        command += ["--deterministic"]
    if side == ONE:
        command += [] if nodes else ["--device", "cpu:0,cpu:1"]
    else:
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        command = [*args.mpirun.split(), "-q", "-n", 2, "--bind-to", "none", *root, *command]
    with tempfile.TemporaryDirectory(prefix="crossbow-ranks-") as folder:
        environment = {**os.environ, "CROSSBOW_SUM_DELAY": str(delay)}
        try:
            answer = answer_of([*command, "--out", f"{folder}/run"], environment=environment)
        except Failed as failure:
            raise Failed(f"{side}, {sync}, {net}: {failure}") from failure
    return answer["images_per_second"]


def main():
    parser = parser_of("bench.cluster.ranks", __doc__, EXAMPLES)
    add = parser.add_argument
    about = f"NET, or NET:PERIOD between exchanges, in steps (default {','.join(NETS)})"
    add("--nets", type=listed(str), default=NETS, metavar="NET,NET", help=about)
    about = f"sma (the default), or others, such as {','.join(OF_NODES)}"
    add("--sync", type=listed(str), default=["sma"], metavar="NAME,NAME", help=about)
    add("--batch", type=int, default=16, help="of each learner (default 16)")
    add("--rounds", type=int, default=3, metavar="N", help="default 3")
    add("--mpirun", default="mpirun", metavar="COMMAND", help="with options (default mpirun)")
    add("--late", type=float, metavar="X", help="also with sums that end X steps later")
    args = parser.parse_args()
    if args.late and set(args.sync) & set(OF_NODES):
        parser.error("--late is of algorithms that add up: nodes send each other messages")
    warn_if_busy()
    sides = SIDES if args.late else [ONE, TWO]
    rows = []
    for net, sync in itertools.product(args.nets, args.sync):
        speeds = {side: [] for side in sides}
        for _ in range(args.rounds):
            for side in sides:
                delay = args.late * 2 * args.batch / speeds[TWO][-1] if side == LATE else 0
                speeds[side].append(images_per_second(args, side, net, sync, delay))
                log(f"{sync}, {net}, {side}: {speeds[side][-1]:,.0f} images/s")
        row = [sync, net, *(f"{statistics.median(speeds[side]):,.0f}" for side in sides)]
        for base, other in zip(sides, sides[1:]):
            ratios = sorted(b / a for a, b in zip(speeds[base], speeds[other]))
            row.append(f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")
        rows.append(row)
    ratios = [f"{other} / {base}" for base, other in zip(sides, sides[1:])]
    print(table(["algorithm", "net:period", *sides, *ratios], rows), end="")


if __name__ == "__main__":
    run_main(main)
