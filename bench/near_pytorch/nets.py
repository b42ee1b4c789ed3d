"""The nets in PyTorch: torchvision's and, under the same names of tensors, those that it lacks."""

import numpy as np
import torchvision.models as zoo
from torch import nn
from torchvision.models.googlenet import GoogLeNet, Inception, InceptionAux

CLASSES = 1000


def resnet_v1(make):
    """As published in 2015: the stride of a bottleneck is in its first convolution."""

    def made(num_classes, **options):
        net = make(num_classes=num_classes, **options)
        for layer in (net.layer2, net.layer3, net.layer4):
            layer[0].conv1.stride, layer[0].conv2.stride = (2, 2), (1, 1)
        return net

    return made


class PreactivatedBlock(nn.Module):
    """Of He et al. 2016; `widths` of its convolutions, of which three make a bottleneck."""

    def __init__(self, inputs, widths, stride):
        super().__init__()
        kernels = (1, 3, 1) if len(widths) == 3 else (3, 3)
        strides = (1, stride, 1) if len(widths) == 3 else (stride, 1)
        self.count = len(widths)
        layers = zip((inputs, *widths), widths, kernels, strides)
        for i, (before, width, kernel, step) in enumerate(layers, 1):
            self.add_module(f"bn{i}", nn.BatchNorm2d(before))
            self.add_module(f"conv{i}", nn.Conv2d(before, width, kernel, step, kernel // 2, bias=False))
        self.downsample = None
        if stride > 1 or inputs != widths[-1]:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, widths[-1], 1, stride, bias=False))

    def forward(self, x):
        shortcut = x
        for i in range(1, self.count + 1):
            x = getattr(self, f"bn{i}")(x).relu()
            if i == 1 and self.downsample:
                shortcut = self.downsample(x)
            x = getattr(self, f"conv{i}")(x)
        return x + shortcut


class PreactivatedResNet(nn.Module):
    def __init__(self, blocks, bottleneck, num_classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        channels = 64
        for stage, count in enumerate(blocks):
            width, made = 64 << stage, []
            widths = (width, width, 4 * width) if bottleneck else (width, width)
            for block in range(count):
                made.append(PreactivatedBlock(channels, widths, 2 if stage and not block else 1))
                channels = widths[-1]
            self.add_module(f"layer{stage + 1}", nn.Sequential(*made))
        self.bn = nn.BatchNorm2d(channels)
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, x):
        x = self.maxpool(self.conv1(x))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.bn(x).relu().mean((2, 3)))


def resnet_v2(blocks, bottleneck):
    return lambda num_classes: PreactivatedResNet(blocks, bottleneck, num_classes)


class FeaturesAndClassifier(nn.Module):
    def __init__(self, features, classifier):
        super().__init__()
        self.features, self.classifier = nn.Sequential(*features), nn.Sequential(*classifier)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def alexnet_2012(num_classes):
    def respond():
        return nn.LocalResponseNorm(5, alpha=float(np.float32(5e-4)), beta=0.75, k=2)

    features = [nn.Conv2d(3, 96, 11, 4, 2), nn.ReLU(), respond(), nn.MaxPool2d(3, 2)]
    features += [nn.Conv2d(96, 256, 5, padding=2, groups=2), nn.ReLU(), respond(), nn.MaxPool2d(3, 2)]
    features += [nn.Conv2d(256, 384, 3, padding=1), nn.ReLU()]
    features += [nn.Conv2d(384, 384, 3, padding=1, groups=2), nn.ReLU()]
    features += [nn.Conv2d(384, 256, 3, padding=1, groups=2), nn.ReLU(), nn.MaxPool2d(3, 2)]
    classifier = [nn.Linear(256 * 6 * 6, 4096), nn.ReLU(), nn.Dropout()]
    classifier += [nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, num_classes)]
    return FeaturesAndClassifier(features, classifier)


def overfeat(num_classes):
    features = [nn.Conv2d(3, 96, 11, 4), nn.ReLU(), nn.MaxPool2d(2)]
    features += [nn.Conv2d(96, 256, 5), nn.ReLU(), nn.MaxPool2d(2)]
    features += [nn.Conv2d(256, 512, 3, padding=1), nn.ReLU()]
    features += [nn.Conv2d(512, 1024, 3, padding=1), nn.ReLU()]
    features += [nn.Conv2d(1024, 1024, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    classifier = [nn.Dropout(), nn.Linear(1024 * 6 * 6, 3072), nn.ReLU()]
    classifier += [nn.Dropout(), nn.Linear(3072, 4096), nn.ReLU(), nn.Linear(4096, num_classes)]
    return FeaturesAndClassifier(features, classifier)


class BiasedConv(nn.Module):
    """In place of torchvision's BasicConv2d."""

    def __init__(self, inputs, outputs, **options):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, **options)

    def forward(self, x):
        return self.conv(x).relu()


class PublishedInception(Inception):
    def __init__(self, *sizes):
        super().__init__(*sizes, conv_block=BiasedConv)
        threes = self.branch3[1].conv
        self.branch3[1] = BiasedConv(threes.in_channels, threes.out_channels, kernel_size=5, padding=2)


def googlenet_2014(num_classes):
    """torchvision's, with the published convolutions and local response norm."""
    def respond():
        return nn.LocalResponseNorm(5, alpha=float(np.float32(1e-4)), beta=0.75, k=1)

    net = GoogLeNet(num_classes, aux_logits=False, blocks=[BiasedConv, PublishedInception, InceptionAux],
                    **INITIALISED)
    net.maxpool1 = nn.Sequential(net.maxpool1, respond())
    net.maxpool2 = nn.Sequential(respond(), net.maxpool2)
    net.maxpool4 = nn.MaxPool2d(3, 2, ceil_mode=True)
    return net


class Net:
    """`auxiliary` are weights of heads, in the order of the module's outputs; `reference`: small
    enough for the slow device."""

    def __init__(self, name, make, side=96, auxiliary=(), reference=True, **options):
        self.name, self.side, self.reference = name, side, reference
        self.auxiliary = [float(np.float32(weight)) for weight in auxiliary]
        self.make = lambda **more: make(num_classes=CLASSES, **options, **more)


INITIALISED = {"init_weights": False}
VGGS = {f"vgg-{n}-imagenet": getattr(zoo, f"vgg{n}") for n in (11, 13, 16, 19)}
NETS = [
    *[Net(f"resnet-{n}", getattr(zoo, f"resnet{n}")) for n in (18, 34, 50, 101, 152)],
    *[Net(f"resnet-{n}:variant=v1", resnet_v1(getattr(zoo, f"resnet{n}"))) for n in (50, 101, 152)],
    Net("resnet-18:variant=v2", resnet_v2((2, 2, 2, 2), False)),
    Net("resnet-34:variant=v2", resnet_v2((3, 4, 6, 3), False)),
    Net("resnet-50:variant=v2", resnet_v2((3, 4, 6, 3), True)),
    Net("resnet-101:variant=v2", resnet_v2((3, 4, 23, 3), True)),
    Net("resnet-152:variant=v2", resnet_v2((3, 8, 36, 3), True)),
    *[Net(name, make, 224, reference=False, **INITIALISED) for name, make in VGGS.items()],
    *[Net(f"vgg-{n}-imagenet:bn=true", getattr(zoo, f"vgg{n}_bn"), 224, reference=False, **INITIALISED)
      for n in (11, 13, 16, 19)],
    Net("alexnet", zoo.alexnet, 224),
    Net("alexnet:variant=2012", alexnet_2012, 224),
    Net("overfeat", overfeat, 231, reference=False),
    Net("mobilenet-v2", zoo.mobilenet_v2),
    Net("googlenet", zoo.googlenet, aux_logits=False, **INITIALISED),
    Net("googlenet:aux=true", zoo.googlenet, auxiliary=(0.3, 0.3), aux_logits=True, **INITIALISED),
    Net("googlenet:variant=2014", googlenet_2014),
    Net("inception-v3", zoo.inception_v3, aux_logits=False, **INITIALISED),
    Net("inception-v3:aux=true", zoo.inception_v3, 299, (0.4,), False, aux_logits=True,
        **INITIALISED),
]

# Those whose exported weights torchvision's nets load.
EXPORTED = {
    **{f"resnet-{n}": getattr(zoo, f"resnet{n}") for n in (18, 34, 50, 101, 152)},
    **VGGS,
    **{f"vgg-{n}-imagenet:bn=true": getattr(zoo, f"vgg{n}_bn") for n in (11, 13, 16, 19)},
    **{"alexnet": zoo.alexnet, "mobilenet-v2": zoo.mobilenet_v2},
    **{"googlenet": lambda **o: zoo.googlenet(aux_logits=False, **INITIALISED, **o)},
    **{"googlenet:aux=true": lambda **o: zoo.googlenet(**INITIALISED, **o)},
    **{"inception-v3": lambda **o: zoo.inception_v3(aux_logits=False, **INITIALISED, **o)},
    **{"inception-v3:aux=true": lambda **o: zoo.inception_v3(**INITIALISED, **o)},
}
