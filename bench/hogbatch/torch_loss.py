"""The mlp in PyTorch on rows in LIBSVM's format; prints losses and seconds by epoch as JSON."""

import argparse
import json
import os
import time

import torch
from sklearn.datasets import load_svmlight_file
from torch.nn import functional as F

from bench import torch_nets


def read(path, features):
    rows, labels = load_svmlight_file(path, n_features=features)
    classes = (torch.from_numpy(labels) > 0).long()
    return torch.from_numpy(rows.toarray()).float(), classes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("rows")
    add("--batch", type=int, default=16)
    add("--rate", type=float, default=0.01)
    add("--seed", type=int, default=1)
    add("--seconds", type=float, default=30)
    args = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(args.seed)
    features = 300
    x, y = read(args.rows, features)
    test_x, test_y = read(f"{args.rows}.t", features)
    net = torch_nets.build("mlp")
    optimizer = torch.optim.SGD(net.parameters(), lr=args.rate, fused=True)
    history, spent = [], 0.0
    while spent < args.seconds:
        net.train()
        start, total = time.perf_counter(), 0.0
        order = torch.randperm(len(x))
        for first in range(0, len(x), args.batch):
            rows = order[first : first + args.batch]
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(net(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            total += loss.detach() * len(rows)
        seconds = time.perf_counter() - start
        spent += seconds
        net.eval()
        with torch.no_grad():
            test = F.cross_entropy(net(test_x), test_y).item()
        if not test < 1e6:
            break
        losses = {"train_loss": float(total) / len(x), "test_loss": test}
        history.append({"seconds": seconds, **losses})
    print(json.dumps({"history": history, "workers": None}))


if __name__ == "__main__":
    main()
