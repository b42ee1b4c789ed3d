#!/ usr / bin / env python3
"""Trains the net of small_net.h with PyTorch and writes pytorch_steps.json beside this file.

No test runs this: pytorch_test.cpp compares with the file that it wrote. All is computed in
float64, from first weights and batches that are rounded to float32, so the differences that the
test finds are Crossbow's.
"""
import json
import platform
from pathlib import Path

import numpy as np
import torch
from torch import nn

BATCH, CHANNELS, SIDE, CLASSES, STEPS = 8, 2, 8, 5, 20


def rate(step):
    return 0.1 if step < STEPS // 2 else 0.05


def values(first, count, salt):
    i = np.arange(first, first + count, dtype=np.int64)
    return (((i * 7919 + salt * 104729) % 2001 - 1000) / 1000).astype(np.float32)


def batch(step):
    count = BATCH * CHANNELS * SIDE * SIDE
    images = values(step * count, count, 0).reshape(BATCH, CHANNELS, SIDE, SIDE)
    labels = [(step + row * 3) % CLASSES for row in range(BATCH)]
    return torch.tensor(images, dtype=torch.float64), torch.tensor(labels)


def make_net():
    net = nn.Sequential()
    net.add_module("conv1", nn.Conv2d(CHANNELS, 6, 3, padding=1, bias=False))
    net.add_module("norm1", nn.BatchNorm2d(6))
    net.add_module("relu1", nn.ReLU())
    net.add_module("pool1", nn.MaxPool2d(2))
    net.add_module("conv2", nn.Conv2d(6, 4, 3))
    net.add_module("relu2", nn.ReLU())
    net.add_module("pool2", nn.AvgPool2d(2))
    net.add_module("flat", nn.Flatten())
    net.add_module("dense", nn.Linear(4, CLASSES))
    net.double()
    for number, (name, parameter) in enumerate(net.named_parameters()):
        v = values(0, parameter.numel(), number + 1).astype(np.float64)
        first = 1 + v / 10 if name == "norm1.weight" else v / 3
        first = first.astype(np.float32).reshape(tuple(parameter.shape))
        parameter.data = torch.tensor(first, dtype=torch.float64)
    return net


def main():
    net = make_net()
    solver = torch.optim.SGD(net.parameters(), lr=rate(0), momentum=0.9, weight_decay=0.01)
    losses = []
    for step in range(STEPS):
        images, labels = batch(step)
        for group in solver.param_groups:
            group["lr"] = rate(step)
        solver.zero_grad()
        loss = nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        solver.step()
        losses.append(loss.item())
    tensors = {name: tensor.flatten().tolist() for name, tensor in net.state_dict().items()
               if name != "norm1.num_batches_tracked"}
    golden = {
        "versions": {"python": platform.python_version(), "torch": torch.__version__,
                     "numpy": np.__version__},
        "losses": losses,
        "tensors": tensors,
    }
    rounded = json.loads(json.dumps(golden), parse_float=lambda text: float(f"{float(text):.9g}"))
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(rounded, indent=0) + "\n")


if __name__ == "__main__":
    main()
