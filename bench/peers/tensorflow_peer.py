"""TensorFlow's training step, the whole of it in one tf.function; see peer.py."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf

from bench import nets
from bench.layered_net import LayeredNet
from bench.peers.peer import BATCHES_IN_MEMORY, serve


def pads(padding):
    """By axis of a batch in NHWC."""
    return [[0, 0], [padding, padding], [padding, padding], [0, 0]]


class Net(LayeredNet):
    """Calling the net walks its layers in NHWC. The first walk, on a real batch, creates the
    variables."""

    def __call__(self, x, creating=False):
        self.creating = creating
        self.next_parameter, self.next_statistic = iter(self.parameters), iter(self.statistics)
        return self.logits(x)

    def uniform(self, bound, shape):
        return tf.random.uniform(shape, -bound, bound)

    def conv(self, x, inputs, width, size, stride, padding, bias):
        weight = self.weight((size, size, inputs, width), inputs * size * size)
        y = tf.nn.conv2d(x, weight, stride, pads(padding))
        return self.biased(y, width) if bias else y

    def depthwise(self, x, width, stride):
        weight = self.weight((3, 3, width, 1), 9)
        return tf.nn.depthwise_conv2d(x, weight, (1, stride, stride, 1), pads(1))

    def batch_norm(self, x, width, epsilon=1e-5, share=0.1):
        scale = self.parameter(lambda: tf.ones(width))
        shift = self.parameter(lambda: tf.zeros(width))
        if self.creating:
            self.statistics.append((tf.Variable(tf.zeros(width)), tf.Variable(tf.ones(width))))
        running = self.statistics[-1] if self.creating else next(self.next_statistic)
        y, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            x if len(x.shape) == 4 else x[:, None, None, :],  # it takes images only
            *(scale, shift, *running, epsilon),
            is_training=True,
            exponential_avg_factor=share,
        )
        if not self.creating:
            for old, new in zip(running, (mean, variance)):
                old.assign(new)
        return tf.reshape(y, x.shape)

    def max_pool(self, x, size=2, stride=2, padding=0):
        if padding:  # as Keras' ResNet50 does: XLA knows no pooling with pads of its own
            x = tf.pad(x, pads(padding))
        return tf.nn.max_pool2d(x, size, stride, "VALID")

    def mean_pool(self, x):
        return tf.nn.avg_pool2d(x, 7, 1, "VALID")

    def global_pool(self, x):
        return tf.reduce_mean(x, (1, 2))

    def flatten(self, x):
        return tf.reshape(x, (x.shape[0], -1))

    variable = staticmethod(tf.Variable)
    zeros = staticmethod(tf.zeros)
    add_bias = staticmethod(tf.nn.bias_add)
    dropout = staticmethod(tf.nn.dropout)
    relu = staticmethod(tf.nn.relu)
    relu6 = staticmethod(tf.nn.relu6)
    sigmoid = staticmethod(tf.sigmoid)


def prepare(args):
    inter = 1 if "inter 1" in args.variant else args.threads
    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(inter)
    tf.random.set_seed(1)
    shape, classes = nets.shape(args.model, channels_last=True), nets.NETS[args.model][1]
    images = [tf.random.normal((args.batch, *shape)) for _ in range(BATCHES_IN_MEMORY)]
    some = {"maxval": classes, "dtype": tf.int32}
    labels = [tf.random.uniform((args.batch,), **some) for _ in range(BATCHES_IN_MEMORY)]
    net = Net(args.model)
    net(images[0], creating=True)
    nets.check_parameters(args.model, sum(int(tf.size(w)) for w in net.parameters))
    velocities = [tf.Variable(tf.zeros_like(w)) for w in net.parameters]

    @tf.function(jit_compile="xla" in args.variant)
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x)))
        for w, v, g in zip(net.parameters, velocities, tape.gradient(loss, net.parameters)):
            # The fused update: v = momentum v + g; w -= rate v.
            rates = {"lr": nets.LEARNING_RATE, "momentum": nets.MOMENTUM}
            g += nets.WEIGHT_DECAY * w
            tf.raw_ops.ResourceApplyMomentum(var=w.handle, accum=v.handle, grad=g, **rates)
        return loss

    loss = None

    def step(batch):
        nonlocal loss
        loss = train_step(images[batch], labels[batch])

    return step, lambda: float(loss)


if __name__ == "__main__":
    serve(prepare)
