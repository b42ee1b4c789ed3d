"""Batches of 224 x 224 images from encoded pictures: Crossbow beside PyTorch's DataLoader and tf.data.

FOLDER is one that `python -m bench.input.make` wrote. All sides cut a random part out of each picture,
scale, mirror and normalise it, in batches of 16, on one and on two threads (or processes). The pages
are read once before. Rates are pictures a second, the best of two passes; beside them is what libjpeg
alone takes to decode the same parts. Nothing else should run on the machine meanwhile.

It needs input_benchmark (cmake --preset release -DCROSSBOW_BENCHMARKS=ON && cmake --build --preset
release), and a virtual environment of the peers with torchvision and Pillow; --python names another.
"""

import json
import os
import pathlib
import subprocess
import sys

from bench import PEERS_PYTHON, ROOT, Failed, last_line, log, parser_of, table, warn_if_busy

BENCHMARK = ROOT / "build/release/input_benchmark"
THREADS = (1, 2)
PICTURES = 1024


def expect_benchmark():
    if not BENCHMARK.exists():
        sys.exit(f"{BENCHMARK} is missing: cmake --preset release -DCROSSBOW_BENCHMARKS=ON")


def on_cores(count, command):
    cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:count]))
    return ["taskset", "-c", cores, *map(str, command)]


def crossbow(folder, threads):
    """By name of the benchmark, pictures a second."""
    options = {"filter": f"/{threads}/real_time", "min_time": 3, "format": "json"}
    command = [BENCHMARK, *(f"--benchmark_{name}={value}" for name, value in options.items())]
    result = subprocess.run(
        on_cores(threads, command),
        env={**os.environ, "CROSSBOW_PICTURES": f"imagenet:{folder}"},
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        raise Failed(last_line(result.stderr))
    runs = json.loads(result.stdout)["benchmarks"]
    return {run["name"].split("/")[0]: run["items_per_second"] for run in runs}


def peer(python, threads, arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    result = subprocess.run(
        on_cores(threads, [python, "-m", *arguments]),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        raise Failed(last_line(result.stderr))
    rates = [json.loads(line)["pictures_per_second"] for line in result.stdout.splitlines()]
    return max(rates[1:])


def attempt(name, function, *arguments):
    try:
        return function(*arguments)
    except Failed as failure:
        log(f"{name}: {failure}")
        return None


def main():
    parser = parser_of("bench.input", __doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--python", default=PEERS_PYTHON, help="of the peers")
    args = parser.parse_args()
    folder = args.folder.resolve()
    train = folder / "train"
    expect_benchmark()
    warn_if_busy()
    sides = {
        "PyTorch, Pillow": ["bench.input.torch_input", train, "pillow"],
        "PyTorch, decode_image and transforms v2": ["bench.input.torch_input", train, "tensor"],
        "tf.data, decode_and_crop_jpeg": ["bench.input.tensorflow_input", train],
    }
    rows = {}
    for threads in THREADS:
        own = attempt("crossbow", crossbow, folder, threads) or {}
        rows.setdefault("Crossbow", []).append(own.get("make_batches"))
        rows.setdefault("libjpeg-turbo alone", []).append(own.get("decode_alone"))
        for name, arguments in sides.items():
            rate = attempt(name, peer, args.python, threads, [*arguments, threads, PICTURES])
            rows.setdefault(name, []).append(rate)
    lines = [[name, *(f"{r:,.0f}" if r else "-" for r in rates)] for name, rates in rows.items()]
    print(table(["pictures a second", *(f"{n} thread{'s' * (n > 1)}" for n in THREADS)], lines))


if __name__ == "__main__":
    main()
