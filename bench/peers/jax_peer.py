"""JAX's training step, the whole of it in one jit with donated buffers; see common.py."""

import math

import jax
import jax.numpy as jnp
import numpy as np

import common
from layered_nets import LayeredNets


class Net(LayeredNets):
    """Calling the net walks its layers. The first walk, on a real batch, creates the parameters
    and running statistics."""

    def __init__(self, model, layout):
        self.model, self.layout = model, layout
        self.channel_axis = 1 if layout == "NCHW" else -1
        self.random = np.random.default_rng(1)
        self.parameters, self.statistics = [], []

    def __call__(self, x, parameters, statistics, key):
        self.creating = parameters is None
        self.next_parameter, self.next_statistic = iter(parameters or []), iter(statistics or [])
        self.new_statistics, self.key = [], key
        return self.logits(x), self.new_statistics

    def parameter(self, make):
        if not self.creating:
            return next(self.next_parameter)
        self.parameters.append(jnp.asarray(make(), jnp.float32))
        return self.parameters[-1]

    def weight(self, shape, fan_in):
        bound = math.sqrt(3 / fan_in)
        return self.parameter(lambda: self.random.uniform(-bound, bound, shape))

    def per_channel(self, vector):
        return vector[:, None, None] if self.layout == "NCHW" else vector

    def conv(self, x, width, size, stride=1, padding=0, bias=False):
        channels = x.shape[self.channel_axis]
        shape = {"NCHW": (width, channels, size, size), "NHWC": (size, size, channels, width)}[
            self.layout
        ]
        weight = self.weight(shape, channels * size * size)
        y = jax.lax.conv_general_dilated(
            x,
            weight,
            (stride, stride),
            [(padding, padding)] * 2,
            dimension_numbers=(
                self.layout,
                "OIHW" if self.layout == "NCHW" else "HWIO",
                self.layout,
            ),
        )
        return y + self.per_channel(self.parameter(lambda: np.zeros(width))) if bias else y

    def dense(self, x, width):
        weight = self.weight((x.shape[-1], width), x.shape[-1])
        return x @ weight + self.parameter(lambda: np.zeros(width))

    def batch_norm(self, x, eps=1e-5, keep=0.9):
        channel = self.channel_axis % x.ndim
        axes = tuple(a for a in range(x.ndim) if a != channel)
        width = x.shape[channel]
        if self.creating:
            self.statistics.append((jnp.zeros(width), jnp.ones(width)))
        running = self.statistics[-1] if self.creating else next(self.next_statistic)
        # One pass over x for both sums, which XLA fuses.
        mean, square = x.mean(axes), (x * x).mean(axes)
        variance = jnp.maximum(square - mean * mean, 0)
        self.new_statistics.append(
            tuple(
                keep * old + (1 - keep) * jax.lax.stop_gradient(new)
                for old, new in zip(running, (mean, variance))
            )
        )
        scale = self.parameter(lambda: np.ones(width)) * jax.lax.rsqrt(variance + eps)
        shift = self.parameter(lambda: np.zeros(width)) - mean * scale
        if x.ndim == 4:
            scale, shift = self.per_channel(scale), self.per_channel(shift)
        return x * scale + shift

    def max_pool2(self, x):
        # A maximum over reshaped axes: its gradient is far quicker here than reduce_window's.
        n, *shape = x.shape
        if self.layout == "NCHW":
            return x.reshape(n, shape[0], shape[1] // 2, 2, shape[2] // 2, 2).max((3, 5))
        return x.reshape(n, shape[0] // 2, 2, shape[1] // 2, 2, shape[2]).max((2, 4))

    def dropout(self, x, rate):
        self.key, key = jax.random.split(self.key)
        return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)

    def mean_pool7(self, x):
        window = (1, 1, 7, 7) if self.layout == "NCHW" else (1, 7, 7, 1)
        return jax.lax.reduce_window(x, 0.0, jax.lax.add, window, (1,) * 4, "VALID") / 49

    def flatten(self, x):
        return x.reshape(x.shape[0], -1)

    relu = staticmethod(jax.nn.relu)
    sigmoid = staticmethod(jax.nn.sigmoid)


def prepare_matmul():
    a, b = np.random.default_rng(1).standard_normal(
        (2, common.MATMUL_SIZE, common.MATMUL_SIZE), np.float32
    )
    a, b, c, product = jnp.asarray(a), jnp.asarray(b), None, jax.jit(jnp.matmul)

    def step(_):
        nonlocal c
        c = product(a, b)

    return jax.__version__, 0, step, lambda: float(c[0, 0])


def make_step(net):
    def train_step(parameters, velocities, statistics, key, x, y):
        key, step_key = jax.random.split(key)

        def loss_of(parameters):
            logits, new_statistics = net(x, parameters, statistics, step_key)
            picked = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1)
            return -picked.mean(), new_statistics

        (loss, statistics), gradients = jax.value_and_grad(loss_of, has_aux=True)(parameters)
        velocities = [
            common.MOMENTUM * v + g + common.WEIGHT_DECAY * w
            for v, g, w in zip(velocities, gradients, parameters)
        ]
        parameters = [w - common.LEARNING_RATE * v for w, v in zip(parameters, velocities)]
        return parameters, velocities, statistics, key, loss

    return jax.jit(train_step, donate_argnums=(0, 1, 2, 3))


def prepare(args):
    if args.model == "matmul":
        return prepare_matmul()
    shape, classes, _ = common.NETS[args.model]
    layout = "NCHW" if "nchw" in args.variant else "NHWC"
    if layout == "NHWC" and len(shape) == 3:
        shape = (*shape[1:], shape[0])
    random = np.random.default_rng(1)
    images = [
        jnp.asarray(random.standard_normal((args.batch, *shape), np.float32))
        for _ in range(common.BATCHES_IN_MEMORY)
    ]
    labels = [
        jnp.asarray(random.integers(classes, size=args.batch, dtype=np.int32))
        for _ in range(common.BATCHES_IN_MEMORY)
    ]
    net = Net(args.model, layout)
    key = jax.random.key(1, impl="rbg")  # quicker for dropout than the default
    net(images[0], None, None, key)
    state = [net.parameters, [jnp.zeros_like(w) for w in net.parameters], net.statistics, key]
    count = sum(w.size for w in net.parameters)
    train_step, loss = make_step(net), None

    def step(batch):
        nonlocal loss
        *state[:], loss = train_step(*state, images[batch], labels[batch])

    return jax.__version__, count, step, lambda: float(loss)


if __name__ == "__main__":
    common.serve(common.VARIANTS["jax"], prepare)
