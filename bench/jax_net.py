"""The nets in JAX, and their training step: one jit with donated buffers."""

import jax
import jax.numpy as jnp
import numpy as np

from bench import nets
from bench.layered_net import LayeredNet


class Net(LayeredNet):
    """Calling the net walks its layers. Where `evaluated` is set, nothing is dropped."""

    def __init__(self, model, layout, evaluated=False):
        super().__init__(model)
        self.layout, self.evaluated = layout, evaluated
        self.first = layout == "NCHW"  # the channels, before height and width

    def __call__(self, x, parameters, statistics, key):
        self.creating = parameters is None
        self.next_parameter, self.next_statistic = iter(parameters or []), iter(statistics or [])
        self.new_statistics, self.key = [], key
        return self.logits(x), self.new_statistics

    def uniform(self, bound, shape):
        return self.random.uniform(-bound, bound, shape)

    def variable(self, value):
        return jnp.asarray(value, jnp.float32)

    def per_channel(self, vector, rank):
        return vector[:, None, None] if self.first and rank == 4 else vector

    def add_bias(self, x, bias):
        return x + self.per_channel(bias, x.ndim)

    def convolved(self, x, inputs, width, size, stride, padding, groups=1):
        """`inputs`: of each group."""
        shape = (width, inputs, size, size) if self.first else (size, size, inputs, width)
        layouts = (self.layout, "OIHW" if self.first else "HWIO", self.layout)
        return jax.lax.conv_general_dilated(
            *(x, self.weight(shape, inputs * size * size), (stride, stride)),
            [(padding, padding)] * 2,
            dimension_numbers=layouts,
            feature_group_count=groups,
        )

    def conv(self, x, inputs, width, size, stride, padding, bias):
        y = self.convolved(x, inputs, width, size, stride, padding)
        return self.biased(y, width) if bias else y

    def depthwise(self, x, width, stride):
        return self.convolved(x, 1, width, 3, stride, 1, groups=width)

    def batch_norm(self, x, width, epsilon=1e-5, share=0.1):
        channel = 1 if self.first else x.ndim - 1
        axes = tuple(a for a in range(x.ndim) if a != channel)
        if self.creating:
            self.statistics.append((jnp.zeros(width), jnp.ones(width)))
        running = self.statistics[-1] if self.creating else next(self.next_statistic)
        # One pass over x for both sums, which XLA fuses.
        mean, square = x.mean(axes), (x * x).mean(axes)
        variance = jnp.maximum(square - mean * mean, 0)
        news = jax.lax.stop_gradient((mean, variance))
        self.new_statistics.append(
            tuple((1 - share) * old + share * new for old, new in zip(running, news))
        )
        scale = self.parameter(lambda: np.ones(width)) * jax.lax.rsqrt(variance + epsilon)
        shift = self.parameter(lambda: np.zeros(width)) - mean * scale
        return x * self.per_channel(scale, x.ndim) + self.per_channel(shift, x.ndim)

    def max_pool(self, x, size=2, stride=2, padding=0):
        if size != stride:
            return self.reduced(x, -jnp.inf, jax.lax.max, size, stride, padding)
        # A maximum over reshaped axes: its gradient is far quicker here than reduce_window's.
        n, *shape = x.shape
        if self.first:
            return x.reshape(n, shape[0], shape[1] // 2, 2, shape[2] // 2, 2).max((3, 5))
        return x.reshape(n, shape[0] // 2, 2, shape[1] // 2, 2, shape[2]).max((2, 4))

    def reduced(self, x, start, function, size, stride, padding=0):
        """By windows."""

        def by_axis(value, other):
            return (other, other, value, value) if self.first else (other, value, value, other)

        window, strides = by_axis(size, 1), by_axis(stride, 1)
        pads = by_axis((padding, padding), (0, 0))
        return jax.lax.reduce_window(x, start, function, window, strides, pads)

    def mean_pool(self, x):
        return self.reduced(x, 0.0, jax.lax.add, 7, 1) / 49

    def global_pool(self, x):
        return x.mean((2, 3) if self.first else (1, 2))

    def dropout(self, x, rate):
        if self.evaluated:
            return x
        self.key, key = jax.random.split(self.key)
        return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)

    def flatten(self, x):
        return x.reshape(x.shape[0], -1)

    zeros = staticmethod(np.zeros)
    relu = staticmethod(jax.nn.relu)
    relu6 = staticmethod(jax.nn.relu6)
    sigmoid = staticmethod(jax.nn.sigmoid)


def initial_state(net, x, seed):
    """Creates the net's parameters; `x` is a batch. What a step needs and returns: parameters,
    their velocities, running statistics, and a random key."""
    net.random = np.random.default_rng(seed)
    key = jax.random.key(seed, impl="rbg")  # quicker for dropout than the default
    net(x, None, None, key)
    nets.check_parameters(net.model, sum(w.size for w in net.parameters))
    return [net.parameters, [jnp.zeros_like(w) for w in net.parameters], net.statistics, key]


def make_step(net, rate):
    def train_step(parameters, velocities, statistics, key, x, y):
        key, step_key = jax.random.split(key)

        def loss_of(parameters):
            logits, new_statistics = net(x, parameters, statistics, step_key)
            picked = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)
            return -picked.mean(), new_statistics

        (loss, statistics), gradients = jax.value_and_grad(loss_of, has_aux=True)(parameters)
        velocities = [
            nets.MOMENTUM * v + g + nets.WEIGHT_DECAY * w
            for v, g, w in zip(velocities, gradients, parameters)
        ]
        parameters = [w - rate * v for w, v in zip(parameters, velocities)]
        return parameters, velocities, statistics, key, loss

    return jax.jit(train_step, donate_argnums=(0, 1, 2, 3))
