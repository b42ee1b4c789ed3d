"""Runs in which ranks are killed, stopped or cut off at random, over an MPI that survives that: each must
end well, with every epoch in its metrics and a checkpoint that holds what it reports. Compares accuracies
with those of undisturbed runs with several seeds."""

import itertools
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time

from bench import CROSSBOW, ROOT, last_line, log, parser_of, table
from bench.cluster.hosts import Hosts

EXAMPLES = """
Examples:
  python3 -m bench.cluster.faults                          200 runs and 102 undisturbed ones, 40 minutes
  python3 -m bench.cluster.faults --runs 20 --sync sma
  python3 -m bench.cluster.faults --model mlp:layers=2,width=384     ssgd's gradient in two buckets
  sudo python3 -m bench.cluster.faults --hosts     each rank on a host of its own, whose network is cut, too
"""
ALGORITHMS = [
    *("sma", "sma-delayed", "ssgd", "sma-paper", "easgd", "eamsgd", "local-sgd", "post-local-sgd"),
    *("polyak-ruppert", "slowmo"),
    *("gossip-push", "gossip-pull", "sgp", "ad-psgd", "downpour", "async-easgd", "async-eamsgd"),
]
MODEL = "mlp:layers=1,width=64"
EPOCHS = 6
TRAIN = [
    *("--data", "digits", "--epochs", EPOCHS, "--save-every", 0.01),
    *("--learners", 1, "--threads-per-learner", 1, "--json"),
]
# What befalls a rank: signals, and the seconds before each.
FAULTS = {
    "killed": [(0, signal.SIGKILL)],
    "stopped": [(0, signal.SIGSTOP)],
    "stopped for a moment": [(0, signal.SIGSTOP), (0.2, signal.SIGCONT)],
    "stopped for a while": [(0, signal.SIGSTOP), (1.5, signal.SIGCONT)],
}
TWO_KILLED = "two killed"
PAUSES = (0, 0.4)  # seconds between them: the second may be killed while the others part with the first
# What befalls the network of a rank's host: seconds until it is mended.
CUTS = {"cut off": None, "cut off for a while": 3}
SCRIPT = ROOT / "scripts/cluster"


def process_of(rank, out):
    """The rank's process, of the run with that folder; None if there is none."""
    for process in pathlib.Path("/proc").iterdir():
        try:
            if (process / "comm").read_text() != "crossbow\n":
                continue
            if os.fsencode(out) not in (process / "cmdline").read_bytes().split(b"\0"):
                continue
            if f"OMPI_COMM_WORLD_RANK={rank}".encode() in (process / "environ").read_bytes().split(b"\0"):
                return int(process.name)
        except OSError:
            continue
    return None


def send(process, signals):
    for wait, number in signals:
        time.sleep(wait)
        try:
            os.kill(process, number)
        except ProcessLookupError:
            return


def await_checkpoint(run, out):
    """Whether the run saves one within half a minute."""
    end = time.monotonic() + 30
    while not (out / "checkpoint").exists():
        if run.poll() is not None or time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def reason_in(errors):
    """What Crossbow says, rather than the launcher, if anything."""
    lines = [line for line in errors.replace("\0", "").splitlines() if line.strip(" -")]  # launcher's marks
    own = [line for line in lines if line.startswith("crossbow ")]
    return own[-1] if own else " ".join(lines[-4:]) or "it printed nothing"


def end_all(run, out):
    run.kill()
    run.communicate()
    for rank in range(4):
        if process := process_of(rank, out):
            os.kill(process, signal.SIGKILL)


class Run:
    """Undisturbed without a fault."""

    def __init__(self, model, sync, ranks, fault=None, after=0, victims=(), pause=0, seed=1):
        self.text = f"{sync}, {ranks} ranks, "
        self.text += f"{victims} {fault} after {after:.2f} s" if fault else f"seed {seed}"
        if fault == TWO_KILLED:
            self.text += f" and {pause:.2f} s"
        self.model = model
        self.sync, self.ranks, self.fault, self.after, self.victims = sync, ranks, fault, after, victims
        self.pause, self.seed = pause, seed
        self.hosts = None

    def do_anywhere(self, on_hosts):
        """As `do`."""
        with tempfile.TemporaryDirectory(prefix="crossbow-faults-") as folder:
            return (self.do_on_hosts if on_hosts else self.do)(pathlib.Path(folder))

    def do_on_hosts(self, folder):
        self.hosts = Hosts(self.ranks, folder)
        try:
            return self.do(folder)
        finally:
            self.hosts.remove()

    def least(self):
        """Ranks that are to go on: of two parts of a network one only."""
        return self.ranks - 2 if self.fault == TWO_KILLED else self.ranks // 2 + 1

    def command(self, out):
        training = [*TRAIN, "--model", self.model, "--sync", self.sync, "--seed", self.seed, "--out", out]
        if not self.hosts:
            return [SCRIPT, "--survivors", *training]
        enough = ("--min-ranks", self.least())
        return [self.hosts.agent, self.hosts.names[0], "exec", SCRIPT, "--survivors", *training, *enough]

    def do(self, folder, seconds=90):
        """Its result, or why there is none."""
        out = folder / "run"
        command = self.command(out)
        environment = {**os.environ, "RANKS": str(self.ranks)}
        if self.hosts:
            environment["MPIRUN_OPTIONS"] = " ".join(map(str, self.hosts.options()))
        run = subprocess.Popen(
            [str(word) for word in command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            if self.fault:
                self.disturb(run, out)
            printed, errors = run.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None, "it hung"
        finally:
            end_all(run, out)
        if run.returncode != 0:
            return None, f"exit status {run.returncode}: {reason_in(errors)}"
        if not printed:
            return None, f"it ended early: {reason_in(errors)}"
        result = json.loads(printed)
        return result, self.fault_of(result, out)

    def disturb(self, run, out):
        await_checkpoint(run, out)
        time.sleep(self.after)
        if self.fault in CUTS:
            return self.cut(self.victims[0])
        if self.fault == TWO_KILLED:
            self.hit(self.victims[0], [(0, signal.SIGKILL)], out)
            self.hit(self.victims[1], [(self.pause, signal.SIGKILL)], out)
        else:
            self.hit(self.victims[0], FAULTS[self.fault], out)

    def cut(self, host):
        self.hosts.cut(host)
        if CUTS[self.fault]:
            time.sleep(CUTS[self.fault])
            self.hosts.cut(host, down=False)

    def hit(self, rank, signals, out):
        if process := process_of(rank, out):
            send(process, signals)

    def fault_of(self, result, out):
        epochs = [line["epoch"] for line in map(json.loads, open(out / "metrics.jsonl")) if "epoch" in line]
        if epochs != list(range(1, EPOCHS + 1)):
            return f"metrics of epochs {epochs}"
        again = subprocess.run([CROSSBOW, "eval", "--json", out], capture_output=True, text=True)
        if again.returncode != 0:
            return f"its checkpoint: {last_line(again.stderr)}"
        if json.loads(again.stdout)["test_accuracy"] != result["final_test_accuracy"]:
            return "its checkpoint is not what it reports"
        return None


def random_run(draw, model, algorithms, hosts):
    ranks = draw.choice([3, 4] if hosts else [2, 3, 4])
    fault = draw.choice([*FAULTS, TWO_KILLED, *(CUTS if hosts else ())])
    if fault == TWO_KILLED and ranks == 2:
        ranks = 3
    sync, after = draw.choice(algorithms), draw.uniform(0, 3)
    return Run(model, sync, ranks, fault, after, draw.sample(range(ranks), 2), draw.uniform(*PAUSES))


def range_of(values):
    return f"{min(values):.3f} to {max(values):.3f}" if values else "–"


class Accuracies:
    """By algorithm, of runs with faults and of undisturbed ones, whatever their number of ranks."""

    def __init__(self):
        self.disturbed, self.calm = {}, {}

    def add(self, run, result):
        of = self.disturbed if run.fault else self.calm
        of.setdefault(run.sync, []).append(result["final_test_accuracy"])

    def table(self):
        """Worse: than the worst undisturbed run, by more than these are apart."""
        rows = []
        for sync, found in sorted(self.disturbed.items()):
            calm, worse = self.calm.get(sync), "–"
            if calm:
                least = min(calm) - (max(calm) - min(calm))
                worse = sum(accuracy < least for accuracy in found)
            rows.append([sync, len(found), range_of(found), len(calm or []), range_of(calm), worse])
        return table(["algorithm", "runs", "accuracy", "undisturbed", "their accuracy", "worse"], rows)


def main():
    parser = parser_of("bench.cluster.faults", __doc__, EXAMPLES)
    parser.add_argument("--runs", type=int, default=200, metavar="N", help="default 200")
    about = "of undisturbed runs, for each algorithm on 2, 3 and 4 ranks (default 2; 0: none)"
    parser.add_argument("--seeds", type=int, default=2, metavar="N", help=about)
    parser.add_argument("--seed", type=int, default=1, help="of what happens when (default 1)")
    about = "each rank on a host of its own, a network namespace: with cuts, and as root"
    parser.add_argument("--hosts", action="store_true", help=about)
    parser.add_argument("--model", default=MODEL, help=f"as of crossbow train (default {MODEL})")
    parser.add_argument("--sync", choices=ALGORITHMS, help="of all runs (default: at random)")
    args = parser.parse_args()
    draw = random.Random(args.seed)
    algorithms = [args.sync] if args.sync else ALGORITHMS
    runs = [random_run(draw, args.model, algorithms, args.hosts) for _ in range(args.runs)]
    for sync, ranks, seed in itertools.product(algorithms, [2, 3, 4], range(1, args.seeds + 1)):
        runs.append(Run(args.model, sync, ranks, seed=seed))
    counts, accuracies, pauses, failures = {}, Accuracies(), [], 0
    for number, run in enumerate(runs, 1):
        result, fault = run.do_anywhere(args.hosts)
        lost = result.get("lost_ranks", []) if result else []
        accuracy = f"{100 * result['final_test_accuracy']:.1f} %" if result else ""
        log(f"{number}: {run.text}: {len(lost)} lost {accuracy} {'FAILED: ' + fault if fault else ''}")
        failures += fault is not None
        key = (run.fault or "none", len(lost))
        counts[key] = counts.get(key, 0) + 1
        if result:
            pauses += [each["pause_seconds"] for each in lost]
            accuracies.add(run, result)
    print(table(["fault", "ranks lost", "runs"], [[*key, n] for key, n in sorted(counts.items())]))
    print(accuracies.table())
    if pauses:
        pauses.sort()
        print(f"Pauses: median {pauses[len(pauses) // 2]:.2f} s, largest {pauses[-1]:.2f} s.")
    print(f"{len(runs)} runs, {failures} failed.")
    raise SystemExit(failures > 0)


if __name__ == "__main__":
    main()
