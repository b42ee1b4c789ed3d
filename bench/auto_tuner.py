"""Does the auto-tuner find the fastest number of learners?

For each net and batch: the throughput of every arrangement of learners and threads, one after the
other, twice over; then what `crossbow train` settles on while it trains. Prints a Markdown table.
Run it on an idle machine; it takes some minutes.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile

from bench import CROSSBOW, listed, parser_of, run_main
from bench.processes import answer_of

FOUND = re.compile(r"going on with (\d+) learners? of (\d+) thread")


def arrangements(cpus):
    """All that use every CPU or one, and those with more learners than CPUs."""
    every = [(k, cpus // k) for k in range(1, cpus + 1)]
    return list(dict.fromkeys([*every, (1, 1), (cpus + 1, 1), (2 * cpus, 1)]))


def throughput(args, case, learners, threads):
    command = [CROSSBOW, "bench", "--json", *case, "--learners", str(learners)]
    command += ["--threads-per-learner", str(threads), "--seconds", str(args.seconds)]
    return answer_of(command)["images_per_second"]


def found(case, data):
    """What a run that has just begun settles on."""
    with tempfile.TemporaryDirectory() as folder:
        command = [CROSSBOW, "train", *case, "--data", data, "--retune", "--epochs", "100"]
        command += ["--tune-for", "throughput"]
        command += ["--out", f"{folder}/run"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if match := FOUND.search(line):
                process.send_signal(signal.SIGINT)
                process.communicate()
                return int(match[1]), int(match[2])
        sys.exit(f"{' '.join(map(str, command))}: it ended before it had settled")


def parse_arguments():
    parser = parser_of("bench.auto_tuner", __doc__)
    about = "lenet=digits resnet-32=imagefolder:DIR …"
    parser.add_argument("cases", nargs="+", metavar="MODEL=DATA", help=about)
    parser.add_argument("--batches", type=listed(int), default=[4, 16], metavar="N,N")
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement (default 3)")
    return parser.parse_args()


def main():
    args = parse_arguments()
    tried = arrangements(len(os.sched_getaffinity(0)))
    header = ["net", "batch", *(f"{k} × {t}" for k, t in tried), "chosen", "of the best"]
    print(f"| {' | '.join(header)} |\n{'|---' * len(header)}|", flush=True)
    for model, _, data in (case.partition("=") for case in args.cases):
        for batch in args.batches:
            case, rates = ["--model", model, "--batch", str(batch)], {}
            for _ in range(2):
                for a in tried:
                    rates[a] = max(rates.get(a, 0), throughput(args, case, *a))
            k, t = found(case, data)
            if (k, t) not in rates:  # of other threads than CPUs, of which a core may have two
                rates[k, t] = throughput(args, case, k, t)
            share = rates[k, t] / max(rates.values())
            row = [model, str(batch), *(f"{rates[a]:,.0f}" for a in tried), f"{k} × {t}"]
            print(f"| {' | '.join(row)} | {100 * share:.1f} % |", flush=True)


if __name__ == "__main__":
    run_main(main)
