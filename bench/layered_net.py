"""A net for frameworks whose layers are functions: JAX and TensorFlow."""

import math

from bench import nets


class LayeredNet:
    """A subclass has the layers of nets.layers but blocks and dense, and `depthwise(x, width,
    stride)`, a 3x3 convolution of each channel, `add_bias`, `uniform(bound, shape)`, `zeros(width)` and
    `variable(value)`. A walk with `creating` set makes the parameters;
    every other one takes them from the iterator `next_parameter`."""

    def __init__(self, model):
        self.model = model
        self.parameters, self.statistics = [], []

    def logits(self, x):
        for name, *arguments in nets.layers(self.model):
            x = getattr(self, name)(x, *arguments)
        return x

    def parameter(self, make):
        if not self.creating:
            return next(self.next_parameter)
        self.parameters.append(self.variable(make()))
        return self.parameters[-1]

    def weight(self, shape, fan_in):
        return self.parameter(lambda: self.uniform(math.sqrt(3 / fan_in), shape))

    def dense(self, x, inputs, width):
        return self.biased(x @ self.weight((inputs, width), inputs), width)

    def biased(self, x, width):
        return self.add_bias(x, self.parameter(lambda: self.zeros(width)))

    def conv_bn(self, x, inputs, width, size, stride=1):
        y = self.conv(x, inputs, width, size, stride, size // 2, False)
        return self.batch_norm(y, width)

    def block(self, x, inputs, width, stride):
        y = self.relu(self.conv_bn(x, inputs, width, 3, stride))
        y = self.conv_bn(y, width, width, 3)
        if inputs != width:
            x = self.conv_bn(x, inputs, width, 1, stride)
        return self.relu(x + y)

    def bottleneck(self, x, inputs, width, stride):
        y = self.relu(self.conv_bn(x, inputs, width, 1))
        y = self.relu(self.conv_bn(y, width, width, 3, stride))
        y = self.conv_bn(y, width, 4 * width, 1)
        if inputs != 4 * width:
            x = self.conv_bn(x, inputs, 4 * width, 1, stride)
        return self.relu(x + y)

    def inverted(self, x, inputs, width, stride, expansion):
        y, hidden = x, inputs * expansion
        if expansion > 1:
            y = self.relu6(self.conv_bn(y, inputs, hidden, 1))
        y = self.relu6(self.batch_norm(self.depthwise(y, hidden, stride), hidden))
        y = self.conv_bn(y, hidden, width, 1)
        return x + y if stride == 1 and inputs == width else y
