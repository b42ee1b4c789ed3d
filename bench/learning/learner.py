"""What the peers' learners share: their options, and the loop over epochs.

A learner trains one net at a constant rate and prints a JSON line per epoch, until it reaches the
target accuracy or the limit of epochs. Only training is timed; what must be compiled is compiled
before.
"""

import argparse
import json
import math
import pathlib
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "peers"))


def parse_arguments(description, models, variants):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", required=True, choices=models)
    parser.add_argument("--data", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--variant", default=variants[0], choices=variants)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--target-accuracy", type=float, default=math.inf)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def learn(args, train_epoch, accuracy):
    """`train_epoch()` returns the mean training loss, `accuracy()` that on the test images."""
    for epoch in range(1, args.epochs + 1):
        start = time.perf_counter()
        loss = train_epoch()
        seconds = time.perf_counter() - start
        if not math.isfinite(loss):
            sys.exit(f"the loss became {loss} in epoch {epoch}")
        record = {
            "epoch": epoch,
            "seconds": seconds,
            "test_accuracy": accuracy(),
            "train_loss": loss,
        }
        print(json.dumps(record), flush=True)
        if record["test_accuracy"] >= args.target_accuracy:
            return
