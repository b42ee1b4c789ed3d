"""A peer's process, whose training step is measured.

It imports and waits: for each line with a number of seconds on its standard input it trains for
that long and answers with one JSON line. The first is its warm-up, before which it builds the net.
So all sides stay warm while they are measured in turn.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import sys
import time

from bench import nets

BATCHES_IN_MEMORY = 8
WINDOWS = 5
MATMUL_SIZE = 2048  # of the square f32 product that tells machines apart

# Ways to run a peer that its users would try.
VARIANTS = {
    "pytorch": [
        *("eager nhwc fused", "eager nhwc foreach", "eager nchw fused"),
        *("compile nhwc fused", "compile nchw fused"),
    ],
    "tensorflow": ["function", "function inter 1", "function xla"],
    "jax": ["jit nhwc", "jit nchw"],
}


def variants(peer, model, quick):
    """Those that make a difference for the model. Quick leaves out PyTorch's compiled ones, which
    take a minute each to prepare."""
    left_out = ["nchw"] * (len(nets.NETS[model][0]) < 3) + ["compile"] * quick
    return [v for v in VARIANTS[peer] if not any(word in v for word in left_out)]


class Trainer:
    """Runs `step(i)` on batch i; `wait()` returns the last loss once all steps are done."""

    def __init__(self, batch, step, wait):
        self.batch, self.step, self.wait = batch, step, wait
        self.batches = itertools.cycle(range(BATCHES_IN_MEMORY))
        self.steps_at_once = 1

    def measure(self, seconds):
        """As `crossbow bench` measures: the median of a few windows."""
        return statistics.median(self.train(seconds / WINDOWS) for _ in range(WINDOWS))

    def train(self, seconds):
        """Images per second. Waits about twice a second only, as peers that work asynchronously run
        ahead."""
        steps, start, elapsed = 0, time.perf_counter(), 0.0
        while elapsed < seconds:
            for _ in range(self.steps_at_once):
                self.step(next(self.batches))
            loss = self.wait()
            steps += self.steps_at_once
            elapsed = time.perf_counter() - start
            self.steps_at_once = max(1, int(min(0.5, seconds) * steps / elapsed))
        if not math.isfinite(loss):
            raise SystemExit(f"the loss is {loss}: a diverged net may run at another speed")
        return steps * self.batch / elapsed


def serve(prepare):
    """`prepare(args)` returns (step, wait); see Trainer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--variant", required=True)
    parser.add_argument("--precision", required=True)
    args = parser.parse_args()
    args.threads = len(os.sched_getaffinity(0))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a framework prints must not mix with the answers

    def answer(name, value):
        answers.write(json.dumps({name: value}) + "\n")

    warm_up = float(next(sys.stdin))
    start = time.perf_counter()
    step, wait = prepare(args)
    for batch in range(BATCHES_IN_MEMORY):
        step(batch)
        wait()
    trainer = Trainer(args.batch, step, wait)
    trainer.train(warm_up)
    answer("prepare_seconds", round(time.perf_counter() - start, 1))
    for line in sys.stdin:
        answer("images_per_second", trainer.measure(float(line)))
