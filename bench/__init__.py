"""Crossbow beside other systems. Commands, run in the repository's root: `python3 -m bench.peers`,
`python3 -m bench.learning`, `python3 -m bench.asynchronous`, `python3 -m bench.cluster.ranks`,
`python3 -m bench.cluster.faults`, `python3 -m bench.cluster.pauses`,
`python3 -m bench.cluster.scale`, `python3 -m bench.cluster.versus`, `python3 -m bench.hogbatch.loss`,
`python3 -m bench.hogbatch.prediction`, `python3 -m bench.hogbatch.sparse`, `python3 -m bench.input`,
`python3 -m bench.auto_tuner`, on a GPU `python3 -m bench.gpu` and, with a Python that has PyTorch and
torchvision, `python3 -m bench.near_pytorch`.

They need Python's standard library alone. The files that import PyTorch, TensorFlow, JAX or NumPy
run in the virtual environment that `python3 -m bench.peers` makes.
"""

import argparse
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CROSSBOW = ROOT / "build/release/crossbow"
PEERS_PYTHON = ROOT / "build/peers-venv/bin/python"


def log(text):
    print(text, file=sys.stderr, flush=True)


class Failed(Exception):
    """One sentence that says why a process gave no result."""


def run_main(main):
    """A command's main function, as its process."""
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
    except KeyboardInterrupt:
        sys.exit(130)


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it printed nothing"


def warn_if_busy():
    load = os.getloadavg()[0]
    if load > 0.5:
        log(f"Warning: the load is {load:.1f}; only an idle machine gives times to trust.")


def parser_of(module, description, epilog=None):
    shape = argparse.RawDescriptionHelpFormatter
    name = f"python3 -m {module}"
    return argparse.ArgumentParser(name, None, description, epilog, formatter_class=shape)


def listed(kind):
    """An option's type: values of this kind, with commas between them."""
    return lambda text: [kind(word) for word in text.split(",")]


def table(header, rows):
    """In Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"
