"""What the three peers share: sizes of the nets, and the loop that measures a training step.

Only the standard library is used here, because `run` imports this file outside the virtual
environment.

A peer is a process that builds one net, warms it up, writes one JSON line and then waits: for
each line with a number of seconds on its standard input it trains for that long and answers with
one JSON line. So all sides stay warm while `run` measures them in turn.
"""

import argparse
import itertools
import json
import math
import os
import sys
import time

LEARNING_RATE = 1e-3
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4
BATCHES_IN_MEMORY = 8
MATMUL_SIZE = 2048  # of the square f32 product that tells machines apart

# (channels, height, width) or (features,), classes, trainable parameters.
NETS = {
    "lenet": ((1, 28, 28), 10, 1_111_946),
    "resnet-20": ((3, 32, 32), 10, 274_394),
    "resnet-32": ((3, 32, 32), 10, 468_826),
    "mlp": ((300,), 2, 1_993_730),
    "vgg-16": ((3, 32, 32), 100, 15_038_116),
}
# Block by block, VGG-16's widths of its 3x3 convolutions.
VGG_BLOCKS = [(64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512)]

# Ways to run a peer that its users would try.
VARIANTS = {
    "pytorch": [
        "eager nhwc fused",
        "eager nhwc foreach",
        "eager nchw fused",
        "compile nhwc fused",
        "compile nchw fused",
    ],
    "tensorflow": ["function", "function inter 1", "function xla"],
    "jax": ["jit nhwc", "jit nchw"],
}
SCRIPTS = {"pytorch": "torch_peer.py", "tensorflow": "tensorflow_peer.py", "jax": "jax_peer.py"}


def resnet_blocks(model):
    """(input channels, output channels, stride) of each basic block of resnet-N, N = 6n + 2."""
    per_stage = (int(model.split("-")[1]) - 2) // 6
    channels = 16
    for stage, width in enumerate((16, 32, 64)):
        for block in range(per_stage):
            yield channels, width, 2 if stage > 0 and block == 0 else 1
            channels = width


def variants(peer, model, quick=False):
    """Those that make a difference for the model. Quick leaves out PyTorch's compiled ones, which
    take a minute each to prepare."""
    has_layout = len(NETS[model][0]) == 3
    return [
        variant
        for variant in VARIANTS[peer]
        if (has_layout or "nchw" not in variant) and not (quick and "compile" in variant)
    ]


def check_parameters(model, count):
    if model in NETS and count != NETS[model][2]:
        raise SystemExit(f"{model} has {count} parameters here but must have {NETS[model][2]}")


def parse_arguments(variants):
    parser = argparse.ArgumentParser(
        description="One peer's training step; see common.py for the protocol."
    )
    parser.add_argument("--model", required=True, choices=[*NETS, "matmul"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--variant", default=variants[0], choices=variants)
    parser.add_argument("--precision", default="f32", choices=["f32", "bf16"])
    parser.add_argument(
        "--cpus",
        default=",".join(map(str, sorted(os.sched_getaffinity(0)))),
        help="CPUs to run on, one thread each (default: all)",
    )
    args = parser.parse_args()
    args.cpus = [int(cpu) for cpu in args.cpus.split(",")]
    args.threads = len(args.cpus)
    os.sched_setaffinity(0, args.cpus)
    return args


class Trainer:
    """Runs `step(i)` on batch i; `wait()` returns the last loss once all steps are done."""

    def __init__(self, batch, step, wait):
        self.batch, self.step, self.wait = batch, step, wait
        self.batches = itertools.cycle(range(BATCHES_IN_MEMORY))
        self.steps_at_once = 1

    def train(self, seconds):
        """Images per second, and the number of steps. Waits about twice a second only, as peers that
        work asynchronously run ahead."""
        steps, start, elapsed = 0, time.perf_counter(), 0.0
        while elapsed < seconds:
            for _ in range(self.steps_at_once):
                self.step(next(self.batches))
            loss = self.wait()
            steps += self.steps_at_once
            elapsed = time.perf_counter() - start
            self.steps_at_once = max(1, int(0.5 * steps / elapsed))
        if not math.isfinite(loss):
            raise SystemExit(f"the loss is {loss}: a diverged net may run at another speed")
        return steps * self.batch / elapsed, steps


def serve(variants, prepare):
    """`prepare(args)` returns (version, parameters, step, wait); see Trainer."""
    args = parse_arguments(variants)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a framework prints must not mix with the answers
    start = time.perf_counter()
    version, parameters, step, wait = prepare(args)
    check_parameters(args.model, parameters)
    for batch in range(BATCHES_IN_MEMORY):
        step(batch)
        wait()
    trainer = Trainer(args.batch, step, wait)
    trainer.train(1.0)
    answers.write(
        json.dumps(
            {
                "version": version,
                "parameters": parameters,
                "prepare_seconds": round(time.perf_counter() - start, 1),
            }
        )
        + "\n"
    )
    for line in sys.stdin:
        rate, steps = trainer.train(float(line))
        answers.write(json.dumps({"images_per_second": rate, "steps": steps}) + "\n")
