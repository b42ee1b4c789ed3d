"""Trains resnet-18 of torchvision on encoded pictures in class folders, with torchvision's transforms.

Training: random parts of at least 8 % of the area, mirrored at random. Test: the short side scaled to
size/0.875, and the middle of that. SGD with momentum 0.9 and weight decay 1e-4 on all parameters.
"""

import pathlib

import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader
from torchvision import models as zoo
from torchvision import transforms
from torchvision.datasets import ImageFolder

from bench import nets
from bench.input.torch_input import DEVIATION, MEAN
from bench.learning import learner

SIDE = 64  # pixels


def pictures(folder, *cut):
    normalised = (transforms.ToTensor(), transforms.Normalize(MEAN, DEVIATION))
    return ImageFolder(folder, transforms.Compose([*cut, *normalised]))


@torch.no_grad()
def accuracy(net, loader):
    net.eval()
    right = sum((net(x).argmax(1) == y).sum().item() for x, y in loader)
    net.train()
    return right / len(loader.dataset)


def main():
    args = learner.parser(__doc__, ["resnet-18"], ["eager"]).parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    cut = transforms.RandomResizedCrop(SIDE), transforms.RandomHorizontalFlip()
    train = pictures(pathlib.Path(args.data, "train"), *cut)
    middle = transforms.Resize(round(SIDE / 0.875)), transforms.CenterCrop(SIDE)
    test = DataLoader(pictures(pathlib.Path(args.data, "val"), *middle), 256)
    net = zoo.resnet18(num_classes=len(train.classes)).to(memory_format=torch.channels_last)
    options = {"weight_decay": nets.WEIGHT_DECAY, "fused": True}
    optimizer = torch.optim.SGD(net.parameters(), args.lr, nets.MOMENTUM, **options)

    def train_epoch():
        total = 0.0
        for x, y in DataLoader(train, args.batch, shuffle=True):
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(net(x.contiguous(memory_format=torch.channels_last)), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        return total / len(train)

    learner.learn(args, train_epoch, lambda: accuracy(net, test))


if __name__ == "__main__":
    main()
