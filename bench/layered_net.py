"""A net for frameworks whose layers are functions: JAX and TensorFlow."""

import math

from bench import nets


class LayeredNet:
    """A subclass has the layers of nets.layers but block and dense, and `add_bias`, `uniform(bound,
    shape)`, `zeros(width)` and `variable(value)`. A walk with `creating` set makes the parameters;
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

    def block(self, x, inputs, width, stride):
        y = self.relu(self.batch_norm(self.conv(x, inputs, width, 3, stride, 1, False), width))
        y = self.batch_norm(self.conv(y, width, width, 3, 1, 1, False), width)
        if inputs != width:
            x = self.batch_norm(self.conv(x, inputs, width, 1, stride, 0, False), width)
        return self.relu(x + y)
