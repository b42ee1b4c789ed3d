"""The simulator beside real ranks of this machine: images per second of the same training. Steps of the
ranks have a sleep, so that many fit on few cores. The simulator is told what was measured apart:
step times of as many processes that know nothing of each other, before and after the real run, as a machine's
speed may change; and latency and bandwidth of as many ranks that all send at once, by MPI alone."""

import concurrent.futures
import gzip
import itertools
import json
import os
import pathlib
import random
import statistics
import tempfile

from bench import CROSSBOW, ROOT, Failed, listed, log, parser_of, run_main, table, warn_if_busy
from bench.processes import finished

EXAMPLES = """
Examples:
  python3 -m bench.cluster.versus                                 needs the machine idle; half an hour
  python3 -m bench.cluster.versus --ranks 2 --sync ssgd --steps 50 --rounds 1
  python3 -m bench.cluster.versus --ranks 2 --model resnet-20 --pad 0      steps that need no sleep
"""
ALGORITHMS = ["ssgd", "sma", "gossip-pull", "easgd"]
MODEL, BATCH = "mlp:layers=1,width=512,activation=relu", 16
SIDE = 28  # of the images
SLOW, FACTOR = 1, 4  # a rank, and how much longer its steps take


def write_images(folder, count):
    """Of noise, as MNIST's files: their speed is all that matters."""
    draw = random.Random(1)
    for split, n in (("train", count), ("t10k", BATCH)):
        for name, head, body in (
            ("images-idx3", (3, n, SIDE, SIDE), draw.randbytes(n * SIDE * SIDE)),
            ("labels-idx1", (1, n), bytes(draw.randrange(10) for _ in range(n))),
        ):
            header = bytes([0, 0, 8, head[0]]) + b"".join(size.to_bytes(4, "big") for size in head[1:])
            (folder / f"{split}-{name}-ubyte.gz").write_bytes(gzip.compress(header + body, 1))


def output_of(command):
    try:
        return finished(command).stdout
    except Failed as failure:
        raise Failed(f"{' '.join(map(str, command[:4]))} …: {failure}") from failure


def with_environment(command, environment):
    return ["env", *(f"{name}={value}" for name, value in environment.items()), *command]


def mpirun(args, ranks, environment=None):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    exported = itertools.chain.from_iterable(("-x", f"{k}={v}") for k, v in (environment or {}).items())
    return [*args.mpirun.split(), "-n", ranks, "--oversubscribe", "--bind-to", "none", *root, *exported]


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.pad, self.wire = folder / "pad.so", folder / "wire"
        source = ROOT / "bench/cluster"
        output_of(["cc", "-O2", "-shared", "-fPIC", source / "pad.c", "-ldl", "-ldnnl", "-o", self.pad])
        output_of(["mpicc", "-O2", source / "wire.c", "-o", self.wire])
        self.step_times = {}  # by ranks, those recorded last
        self.parameters = self.choose_kernels()
        self.network = {ranks: self.network_of(ranks) for ranks in args.ranks}

    def network_of(self, ranks):
        network = json.loads(output_of([*mpirun(self.args, ranks), self.wire, 4 * self.parameters]))
        log(f"{ranks} ranks: {network['latency'] * 1e6:.1f} µs, {network['bandwidth'] / 1e9:.2f} GB/s")
        return network

    def data(self, ranks):
        folder = self.folder / f"data-{ranks}"
        if not folder.exists():
            folder.mkdir()
            write_images(folder, ranks * BATCH * self.args.steps)
        return f"mnist:{folder}"

    def training(self, command, ranks, sync):
        return [
            *(CROSSBOW, command, "--json", "--model", self.args.model, "--data", self.data(ranks)),
            *("--batch", BATCH, "--sync", sync, "--epochs", 1, "--threads-per-learner", 1, "--seed", 1),
            *("--bn-images", 0),  # else counted as training, but not by the simulator's clock
            *("--out", tempfile.mkdtemp(dir=self.folder)),
        ]

    def pad_of(self, ranks):
        return self.args.pad * ranks

    def padded(self, ranks, slow=None):
        seconds = {"LD_PRELOAD": self.pad, "PAD_SECONDS": self.pad_of(ranks)}
        return {**seconds, **({"PAD_SLOW_RANK": SLOW, "PAD_SLOW_SECONDS": slow} if slow else {})}

    def choose_kernels(self):
        """Trains one process, which chooses them for all that follow; returns its number of parameters."""
        training = [*self.training("train", 1, "none"), "--learners", 1]
        return json.loads(output_of(with_environment(training, self.padded(1))))["parameters"]

    def record_steps(self, ranks):
        """Of processes that run side by side."""
        records = [self.folder / f"steps-{ranks}-{number}.txt" for number in range(ranks)]

        def record(path):
            command = [*self.training("train", 1, "none"), "--learners", 1]
            output_of(with_environment(command, {**self.padded(ranks), "PAD_RECORD": path}))

        with concurrent.futures.ThreadPoolExecutor(ranks) as pool:
            list(pool.map(record, records))
        times = []
        for path in records:
            times += [float(line) for line in path.read_text().split()][-(self.args.steps - 2) :]
        if not times:
            raise Failed(f"no step of {self.args.model} was seen: oneDNN computes none of its layers")
        return times

    def real(self, ranks, sync, slow=None):
        """`slow`: what the slow rank's steps sleep."""
        command = [*self.training("train", ranks, sync), "--learners", 1]
        said = json.loads(output_of([*mpirun(self.args, ranks, self.padded(ranks, slow)), *command]))
        return said["images_per_second"]

    def simulated(self, ranks, sync, straggler, times):
        steps = self.folder / "steps.txt"
        steps.write_text("".join(f"{time}\n" for time in times))
        command = self.training("simulate", ranks, sync) + ["--nodes", ranks]
        command += ["--step-times", f"recorded:{steps}"]
        command += [word for name, value in self.network[ranks].items() for word in (f"--{name}", value)]
        command += ["--straggler", f"{SLOW}:{FACTOR}"] if straggler else []
        return ranks * BATCH * self.args.steps / json.loads(output_of(command))["virtual_seconds"]

    def compare(self, ranks, sync, straggler):
        """Images per second of real ranks, and simulated ones."""
        before = self.step_times.get(ranks) or self.record_steps(ranks)
        slow = (FACTOR - 1) * statistics.mean(before) + self.pad_of(ranks)  # and the step's own time
        real = self.real(ranks, sync, slow if straggler else None)
        after = self.step_times[ranks] = self.record_steps(ranks)
        simulated = self.simulated(ranks, sync, straggler, before + after)
        who = f"{ranks} ranks, {sync}{', one slow' if straggler else ''}"
        means = " and ".join(f"{1e3 * statistics.mean(times):.1f}" for times in (before, after))
        log(f"{who}: {real:.0f}, {simulated:.0f} simulated, from steps of {means} ms")
        return real, simulated


def main():
    parser = parser_of("bench.cluster.versus", __doc__, EXAMPLES)
    add = parser.add_argument
    add("--ranks", type=listed(int), default=[2, 4, 8], metavar="N,N", help="default 2,4,8")
    add("--sync", type=listed(str), default=ALGORITHMS, metavar="NAME,NAME", help=",".join(ALGORITHMS))
    add("--model", default=MODEL, help=f"as of crossbow train (default {MODEL})")
    about = "seconds that a step sleeps, for each of the ranks (default 0.0125)"
    add("--pad", type=float, default=0.0125, metavar="S", help=about)
    add("--steps", type=int, default=300, metavar="N", help="of a rank, about (default 300)")
    add("--rounds", type=int, default=1, metavar="N", help="of which that of the median error is shown (default 1)")
    add("--mpirun", default="mpirun -q", metavar="COMMAND", help="with options (default mpirun -q)")
    args = parser.parse_args()
    if args.rounds % 2 == 0:
        parser.error("--rounds N: an odd number, since the round of the median error is shown")
    warn_if_busy()
    rows = []
    with tempfile.TemporaryDirectory(prefix="crossbow-versus-") as folder:
        bench = Bench(args, pathlib.Path(folder))
        for ranks, sync, straggler in itertools.product(args.ranks, args.sync, (False, True)):
            pairs = [bench.compare(ranks, sync, straggler) for _ in range(args.rounds)]
            real, simulated = sorted(pairs, key=lambda pair: pair[1] / pair[0])[args.rounds // 2]
            slow = "four times slower" if straggler else "even"
            rows.append([ranks, sync, slow, f"{real:,.0f}", f"{simulated:,.0f}", f"{simulated / real - 1:+.1%}"])
    header = ["ranks", "algorithm", "one rank", "real images/s", "simulated", "error"]
    print(table(header, rows), end="")


if __name__ == "__main__":
    run_main(main)
