"""TensorFlow's training step, the whole of it in one tf.function; see common.py."""

import math
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf

import common
from layered_nets import LayeredNets


class Net(LayeredNets):
    """Calling the net walks its layers in NHWC. The first walk, on a real batch, creates the
    variables."""

    def __init__(self, model):
        self.model = model
        self.parameters, self.statistics = [], []

    def __call__(self, x, creating=False):
        self.creating = creating
        self.next_parameter, self.next_statistic = iter(self.parameters), iter(self.statistics)
        return self.logits(x)

    def parameter(self, initial):
        if not self.creating:
            return next(self.next_parameter)
        self.parameters.append(tf.Variable(initial()))
        return self.parameters[-1]

    def weight(self, shape, fan_in):
        bound = math.sqrt(3 / fan_in)
        return self.parameter(lambda: tf.random.uniform(shape, -bound, bound))

    def conv(self, x, width, size, stride=1, padding=0, bias=False):
        channels = x.shape[-1]
        weight = self.weight((size, size, channels, width), channels * size * size)
        y = tf.nn.conv2d(
            x, weight, stride, [[0, 0], [padding, padding], [padding, padding], [0, 0]]
        )
        return tf.nn.bias_add(y, self.parameter(lambda: tf.zeros(width))) if bias else y

    def dense(self, x, width):
        weight = self.weight((x.shape[-1], width), x.shape[-1])
        return tf.nn.bias_add(x @ weight, self.parameter(lambda: tf.zeros(width)))

    def batch_norm(self, x, eps=1e-5, keep=0.9):
        width = x.shape[-1]
        scale, shift = self.parameter(lambda: tf.ones(width)), self.parameter(
            lambda: tf.zeros(width)
        )
        if self.creating:
            self.statistics.append((tf.Variable(tf.zeros(width)), tf.Variable(tf.ones(width))))
        running = self.statistics[-1] if self.creating else next(self.next_statistic)
        y, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            x if len(x.shape) == 4 else x[:, None, None, :],  # it takes images only
            scale,
            shift,
            *running,
            epsilon=eps,
            is_training=True,
            exponential_avg_factor=1 - keep
        )
        if not self.creating:
            for old, new in zip(running, (mean, variance)):
                old.assign(new)
        return tf.reshape(y, x.shape)

    def dropout(self, x, rate):
        return tf.nn.dropout(x, rate)

    def max_pool2(self, x):
        return tf.nn.max_pool2d(x, 2, 2, "VALID")

    def flatten(self, x):
        return tf.reshape(x, (x.shape[0], -1))

    def mean_pool7(self, x):
        return tf.nn.avg_pool2d(x, 7, 1, "VALID")

    relu = staticmethod(tf.nn.relu)
    sigmoid = staticmethod(tf.sigmoid)


def prepare_matmul():
    a, b = tf.unstack(tf.random.normal((2, common.MATMUL_SIZE, common.MATMUL_SIZE)))
    c = None

    @tf.function
    def product():
        return a @ b

    def step(_):
        nonlocal c
        c = product()

    return tf.__version__, 0, step, lambda: float(c[0, 0])


def prepare(args):
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(
        1 if "inter 1" in args.variant else args.threads
    )
    tf.random.set_seed(1)
    if args.model == "matmul":
        return prepare_matmul()
    shape, classes, _ = common.NETS[args.model]
    if len(shape) == 3:
        shape = (*shape[1:], shape[0])
    images = [tf.random.normal((args.batch, *shape)) for _ in range(common.BATCHES_IN_MEMORY)]
    labels = [
        tf.random.uniform((args.batch,), maxval=classes, dtype=tf.int32)
        for _ in range(common.BATCHES_IN_MEMORY)
    ]
    net = Net(args.model)
    net(images[0], creating=True)
    velocities = [tf.Variable(tf.zeros_like(w)) for w in net.parameters]

    @tf.function(jit_compile="xla" in args.variant)
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x)))
        for w, v, g in zip(net.parameters, velocities, tape.gradient(loss, net.parameters)):
            # The fused update: v = momentum v + g; w -= rate v.
            tf.raw_ops.ResourceApplyMomentum(
                var=w.handle,
                accum=v.handle,
                lr=common.LEARNING_RATE,
                grad=g + common.WEIGHT_DECAY * w,
                momentum=common.MOMENTUM,
            )
        return loss

    loss = None

    def step(batch):
        nonlocal loss
        loss = train_step(images[batch], labels[batch])

    count = sum(math.prod(w.shape) for w in net.parameters)
    return tf.__version__, count, step, lambda: float(loss)


if __name__ == "__main__":
    common.serve(common.VARIANTS["tensorflow"], prepare)
