"""Trains lenet on MNIST or resnet-20 on CIFAR-10 with PyTorch: learning curves to compare with.

Prints a JSON line per epoch. The recipe is Crossbow's: Xavier-uniform weights by fan-in, zero
biases, SGD with momentum 0.9 and weight decay 1e-4 on all parameters. MNIST: pixels / 255.
CIFAR-10: pixels / 127.5 - 1; training images padded by 4 zeros, cropped back to 32x32 at random,
and mirrored at random. The last batch of an epoch may be smaller; nothing is dropped.
"""

import argparse
import gzip
import json
import pathlib
import time

import numpy as np
import torch
from PIL import Image
from torch.nn import functional as F

import common
import torch_nets


def read_idx(folder, name):
    raw = gzip.decompress((folder / f"{name}.gz").read_bytes())
    dimensions = raw[3]
    shape = [int.from_bytes(raw[4 * i + 4 : 4 * i + 8], "big") for i in range(dimensions)]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def read_mnist(folder, split):
    prefix = "train" if split == "train" else "t10k"
    images = torch.from_numpy(read_idx(folder, f"{prefix}-images-idx3-ubyte").copy())[:, None]
    return images / 255, torch.from_numpy(
        read_idx(folder, f"{prefix}-labels-idx1-ubyte").astype(np.int64)
    )


def read_image_folder(folder, split):
    """SPLIT/CLASS/*; the classes are numbered in the order of their names."""
    images, labels = [], []
    for label, name in enumerate(
        sorted(path.name for path in (folder / split).iterdir() if path.is_dir())
    ):
        for path in sorted((folder / split / name).iterdir()):
            images.append(np.asarray(Image.open(path).convert("RGB")))
            labels.append(label)
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
    return pixels / 127.5 - 1, torch.tensor(labels)


def augment(images, random):
    """Pads by 4, then crops and mirrors each image of the batch at random, all by one gather."""
    n, channels, height, width = images.shape
    top, left = torch.randint(9, (2, n, 1), generator=random)
    rows, columns = torch.arange(height) + top, torch.arange(width) + left
    mirror = torch.randint(2, (n, 1), generator=random).bool()
    columns = torch.where(mirror, columns.flip(1), columns)
    padded = F.pad(images, (4, 4, 4, 4)).permute(0, 2, 3, 1)
    picked = padded[torch.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return picked.permute(0, 3, 1, 2)  # channels last in memory, as the net wants them


@torch.no_grad()
def accuracy(net, images, labels):
    net.eval()
    right = sum(
        (net(x).argmax(1) == y).sum().item() for x, y in zip(images.split(500), labels.split(500))
    )
    net.train()
    return right / len(labels)


def train_epoch(net, optimizer, images, labels, batch, random, augmented):
    """The mean training loss."""
    total = 0.0
    for picked in torch.randperm(len(labels), generator=random).split(batch):
        x, y = images[picked], labels[picked]
        if augmented:
            x = augment(x, random)
        x = x.contiguous(memory_format=torch.channels_last)
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(y)
    return total / len(labels)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", choices=["lenet", "resnet-20", "resnet-32"], default="resnet-20")
    parser.add_argument(
        "--data",
        type=pathlib.Path,
        required=True,
        help="lenet: folder of MNIST's gzipped IDX files; resnet: one with train/CLASS/* and test/CLASS/*",
    )
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument(
        "--lr-milestones",
        type=lambda text: [int(e) for e in text.split(",")],
        default=[],
        metavar="E,E",
        help="epochs after which the rate is divided by 10",
    )
    parser.add_argument("--momentum", type=float, default=common.MOMENTUM)
    parser.add_argument("--weight-decay", type=float, default=common.WEIGHT_DECAY)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def main():
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    random = torch.Generator().manual_seed(args.seed)
    read = read_mnist if args.model == "lenet" else read_image_folder
    (images, labels), test = read(args.data, "train"), read(args.data, "test")
    net = torch_nets.build(args.model).to(memory_format=torch.channels_last)
    common.check_parameters(args.model, torch_nets.count_parameters(net))
    optimizer = torch.optim.SGD(
        net.parameters(), args.lr, args.momentum, weight_decay=args.weight_decay, fused=True
    )
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, args.lr_milestones)
    for epoch in range(1, args.epochs + 1):
        start = time.perf_counter()
        loss = train_epoch(
            net, optimizer, images, labels, args.batch, random, augmented=args.model != "lenet"
        )
        seconds = time.perf_counter() - start
        schedule.step()
        print(
            json.dumps(
                {
                    "epoch": epoch,
                    "train_loss": round(loss, 5),
                    "test_accuracy": accuracy(net, *test),
                    "seconds": round(seconds, 2),
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
