"""What the peers' learners share: their options, and the loop over epochs.

A learner trains one net and prints a JSON line per epoch, until it reaches the target accuracy or
the limit of epochs. Only training is timed; what must be compiled is compiled before.
"""

import argparse
import json
import math
import pathlib
import sys
import time


def parser(description, models, variants):
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--model", required=True, choices=models)
    add("--data", type=pathlib.Path, required=True, metavar="DIR")
    add("--variant", default=variants[0], choices=variants)
    add("--batch", type=int, default=16)
    add("--lr", type=float, default=0.01)
    add("--epochs", type=int, default=1)
    add("--target-accuracy", type=float, default=math.inf)
    add("--seed", type=int, default=1)
    add("--threads", type=int, default=2)
    return parser


def learn(args, train_epoch, accuracy):
    """`train_epoch()` returns the mean training loss, `accuracy()` that on the test images."""
    for epoch in range(1, args.epochs + 1):
        start = time.perf_counter()
        loss = train_epoch()
        record = {"epoch": epoch, "seconds": time.perf_counter() - start}
        if not math.isfinite(loss):
            sys.exit(f"the loss became {loss} in epoch {epoch}")
        record |= {"test_accuracy": accuracy(), "train_loss": loss}
        print(json.dumps(record), flush=True)
        if record["test_accuracy"] >= args.target_accuracy:
            return
