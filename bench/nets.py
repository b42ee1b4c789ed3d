"""The nets that all sides train, stated once, with the sizes that show that they are the same."""

LEARNING_RATE = 1e-3  # of the measurements of speed
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4

# (channels, height, width) or (features,), classes, trainable parameters.
NETS = {
    "lenet": ((1, 28, 28), 10, 1_111_946),
    "resnet-20": ((3, 32, 32), 10, 274_394),
    "resnet-32": ((3, 32, 32), 10, 468_826),
    "mlp": ((300,), 2, 1_993_730),
    "vgg-16": ((3, 32, 32), 100, 15_038_116),
    "resnet-50": ((3, 224, 224), 1000, 25_557_032),
    "mobilenet-v2": ((3, 224, 224), 1000, 3_504_872),
    "vgg-16-imagenet": ((3, 224, 224), 1000, 138_357_544),
}
# Those that PyTorch's users take from torchvision.
TORCHVISION = {"resnet-50": "resnet50", "mobilenet-v2": "mobilenet_v2", "vgg-16-imagenet": "vgg16"}
MOBILENET_STAGES = [  # expansion, width, blocks, stride of the first
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
]
VGG_BLOCKS = [(64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512)]


def lenet():
    for inputs, width in ((1, 32), (32, 64)):
        yield from (("conv", inputs, width, 5, 1, 0, True), ("relu",), ("max_pool",))
    yield from (("flatten",), ("dense", 1024, 1024), ("relu",), ("dropout", 0.4))
    yield "dense", 1024, 10


def resnet(depth):
    inputs = 16
    yield from (("conv", 3, inputs, 3, 1, 1, False), ("batch_norm", inputs), ("relu",))
    for stage, width in enumerate((16, 32, 64)):
        for block in range((depth - 2) // 6):
            yield "block", inputs, width, 2 if stage > 0 and block == 0 else 1
            inputs = width
    yield from (("mean_pool",), ("flatten",), ("dense", 256, 10))


def mlp():
    for inputs in (300, *[512] * 7):
        yield from (("dense", inputs, 512), ("sigmoid",))
    yield "dense", 512, 2


def vgg():
    inputs, norm = 3, (1e-3, 0.01)
    for number, block in enumerate(VGG_BLOCKS):
        for unit, width in enumerate(block):
            if unit > 0:
                yield "dropout", 0.3 if number == 0 else 0.4
            yield from (("conv", inputs, width, 3, 1, 1, True), ("relu",))
            yield "batch_norm", width, *norm
            inputs = width
        yield ("max_pool",)
    yield from (("flatten",), ("dropout", 0.5), ("dense", 512, 512), ("relu",))
    yield from (("batch_norm", 512, *norm), ("dropout", 0.5), ("dense", 512, 100))


def resnet_50():
    yield from (("conv", 3, 64, 7, 2, 3, False), ("batch_norm", 64), ("relu",))
    yield "max_pool", 3, 2, 1
    inputs = 64
    for stage, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            yield "bottleneck", inputs, width, 2 if stage > 0 and block == 0 else 1
            inputs = 4 * width
    yield from (("global_pool",), ("dense", inputs, 1000))


def mobilenet_v2():
    yield from (("conv", 3, 32, 3, 2, 1, False), ("batch_norm", 32), ("relu6",))
    inputs = 32
    for expansion, width, blocks, stride in MOBILENET_STAGES:
        for block in range(blocks):
            yield "inverted", inputs, width, stride if block == 0 else 1, expansion
            inputs = width
    yield from (("conv", inputs, 1280, 1, 1, 0, False), ("batch_norm", 1280), ("relu6",))
    yield from (("global_pool",), ("dropout", 0.2), ("dense", 1280, 1000))


def vgg_imagenet():
    inputs = 3
    for block in VGG_BLOCKS:
        for width in block:
            yield from (("conv", inputs, width, 3, 1, 1, True), ("relu",))
            inputs = width
        yield ("max_pool",)
    yield ("flatten",)
    for inputs in (512 * 7 * 7, 4096):
        yield from (("dense", inputs, 4096), ("relu",), ("dropout", 0.5))
    yield "dense", 4096, 1000


MAKERS = {
    "lenet": lenet,
    "resnet-20": lambda: resnet(20),
    "resnet-32": lambda: resnet(32),
    "mlp": mlp,
    "vgg-16": vgg,
    "resnet-50": resnet_50,
    "mobilenet-v2": mobilenet_v2,
    "vgg-16-imagenet": vgg_imagenet,
}


def layers(model):
    """(kind, arguments ...) of each layer in turn: conv(inputs, width, size, stride, padding, with
    bias), dense(inputs, width), batch_norm(width, epsilon, share of the newest batch in the running
    statistics), dropout(rate), block(inputs, width, stride), bottleneck(inputs, width, stride),
    inverted(inputs, width, stride, expansion), relu, relu6, sigmoid, flatten, max_pool(size, stride,
    padding), by default of 2x2 with stride 2, mean_pool of 7x7 with stride 1, global_pool to the mean
    of each channel.

    A block is conv-BN-ReLU-conv-BN, added to its input or, where the width changes, to the input's
    1x1 projection with BN; then ReLU. A bottleneck is the same of three convolutions, 1x1, 3x3 and 1x1
    to four times the width. An inverted block is a 1x1 convolution to `expansion` times as many
    channels, unless that is 1, a 3x3 one of each channel, both with BN and ReLU6, and one of 1x1 with
    BN, added to its input where both have the same shape."""
    return MAKERS[model]()


def shape(model, channels_last):
    """Of a sample."""
    sizes = NETS[model][0]
    return (*sizes[1:], sizes[0]) if channels_last and len(sizes) == 3 else sizes


def check_parameters(model, count):
    if count != NETS[model][2]:
        raise SystemExit(f"{model} has {count} parameters here but must have {NETS[model][2]}")
