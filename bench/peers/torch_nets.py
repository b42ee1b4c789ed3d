"""The nets in PyTorch, for torch_peer.py (speed) and learn_torch.py (learning curves)."""

import math

import torch
from torch import nn

import common


class BasicBlock(nn.Module):
    """conv-BN-ReLU-conv-BN, added to the input or, where the width changes, to its 1x1 projection
    with BN; then ReLU."""

    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = nn.Identity()
        if channels != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x):
        y = torch.relu_(self.bn1(self.conv1(x)))
        return torch.relu_(self.bn2(self.conv2(y)).add_(self.shortcut(x)))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 32, 5),
        nn.ReLU(True),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5),
        nn.ReLU(True),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, 1024),
        nn.ReLU(True),
        nn.Dropout(0.4),
        nn.Linear(1024, 10),
    )


def resnet(model):
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(True),
        *(BasicBlock(*block) for block in common.resnet_blocks(model)),
        nn.AvgPool2d(7, stride=1),
        nn.Flatten(),
        nn.Linear(256, 10)
    )


def mlp():
    sizes = [300] + [512] * 8
    hidden = (layer for i, o in zip(sizes, sizes[1:]) for layer in (nn.Linear(i, o), nn.Sigmoid()))
    return nn.Sequential(*hidden, nn.Linear(512, 2))


def vgg16():
    layers, channels = [], 3
    for number, block in enumerate(common.VGG_BLOCKS):
        for unit, width in enumerate(block):
            if unit > 0:
                layers.append(nn.Dropout(0.3 if number == 0 else 0.4))
            layers += [
                nn.Conv2d(channels, width, 3, padding=1),
                nn.ReLU(True),
                nn.BatchNorm2d(width, eps=1e-3, momentum=0.01),
            ]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(
        *layers,
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(512, 512),
        nn.ReLU(True),
        nn.BatchNorm1d(512, eps=1e-3, momentum=0.01),
        nn.Dropout(0.5),
        nn.Linear(512, 100)
    )


def build(model):
    """The net, with Xavier-uniform weights by fan-in and zero biases."""
    makers = {"lenet": lenet, "mlp": mlp, "vgg-16": vgg16}
    net = makers[model]() if model in makers else resnet(model)
    for layer in net.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            bound = math.sqrt(3 / layer.weight[0].numel())
            nn.init.uniform_(layer.weight, -bound, bound)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return net


def count_parameters(net):
    return sum(p.numel() for p in net.parameters())
