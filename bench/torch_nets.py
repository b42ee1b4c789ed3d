"""The nets in PyTorch."""

import math

import torch
from torch import nn

from bench import nets


class BasicBlock(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = nn.Identity()
        if inputs != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width)
            )

    def forward(self, x):
        y = torch.relu_(self.bn1(self.conv1(x)))
        return torch.relu_(self.bn2(self.conv2(y)).add_(self.shortcut(x)))


def conv(inputs, width, size, stride, padding, bias):
    return nn.Conv2d(inputs, width, size, stride, padding, bias=bias)


MODULES = {
    "conv": conv,
    "dense": nn.Linear,
    "batch_norm": nn.BatchNorm2d,
    "block": BasicBlock,
    "relu": lambda: nn.ReLU(True),
    "sigmoid": nn.Sigmoid,
    "dropout": nn.Dropout,
    "flatten": nn.Flatten,
    "max_pool": lambda: nn.MaxPool2d(2),
    "mean_pool": lambda: nn.AvgPool2d(7, stride=1),
}


def channels_last(net, images):
    memory = torch.channels_last
    return net.to(memory_format=memory), [x.contiguous(memory_format=memory) for x in images]


def sgd(net, **how):
    """As the measurements of speed have it."""
    return torch.optim.SGD(
        net.parameters(),
        lr=nets.LEARNING_RATE,
        momentum=nets.MOMENTUM,
        weight_decay=nets.WEIGHT_DECAY,
        **how,
    )


def build(model):
    """The net, with Xavier-uniform weights by fan-in and zero biases, or torchvision's."""
    if model in nets.TORCHVISION:
        from torchvision import models as zoo

        net = getattr(zoo, nets.TORCHVISION[model])()
        nets.check_parameters(model, sum(p.numel() for p in net.parameters()))
        return net
    modules, made = dict(MODULES), []
    for name, *arguments in nets.layers(model):
        made.append(modules[name](*arguments))
        if name == "flatten":
            modules["batch_norm"] = nn.BatchNorm1d
    net = nn.Sequential(*made)
    for layer in net.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            bound = math.sqrt(3 / layer.weight[0].numel())
            nn.init.uniform_(layer.weight, -bound, bound)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    nets.check_parameters(model, sum(p.numel() for p in net.parameters()))
    return net
