"""The mlp in PyTorch or TensorFlow on rows in LIBSVM's format; prints losses and seconds by window
of rows as JSON. Weights are drawn as Crossbow draws them."""

import argparse
import json
import os
import time

import numpy as np
from sklearn.datasets import load_svmlight_file

LAYERS, WIDTH = 8, 512
EVALUATED = 4096  # rows at a time


class Rows:
    """All numbers of rows, sparse if asked, and classes, or a 1 for each class of a set. `names` are
    the labels of both files, ascending."""

    def __init__(self, rows, labels, names, args):
        self.x = rows if args.sparse else rows.toarray()
        if args.sets:
            self.y = np.zeros((len(labels), len(names)), np.float32)
            for row, of_row in enumerate(labels):
                self.y[row, np.searchsorted(names, of_row)] = 1
        else:
            self.y = np.searchsorted(names, labels)

    def __len__(self):
        return len(self.y)


def read(args):
    """The training rows."""
    files = [args.rows, args.rows + ".t"]
    (rows, labels), (_, others) = (
        load_svmlight_file(f, n_features=args.features, dtype=np.float32, multilabel=args.sets)
        for f in files
    )
    names = np.unique([name for of in (*labels, *others) for name in (of if args.sets else [of])])
    return Rows(rows, labels, names, args)


def weights(shape, seed):
    """Of each layer, [outputs, inputs]."""
    rng = np.random.default_rng(seed)
    sizes = [shape[0], *[WIDTH] * LAYERS, shape[1]]
    for layer, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
        last = layer == LAYERS
        bound = np.sqrt(3 / inputs) if last else 4 * np.sqrt(6 / (inputs + outputs))
        yield rng.uniform(-bound, bound, (outputs, inputs)).astype(np.float32)


def torch_net(args, train):
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(args.threads)

    class SparseLinear(nn.Module):
        """The first layer, of sparse rows: its gradient has the rows' features alone."""

        def __init__(self, w):
            super().__init__()
            weight = torch.from_numpy(np.ascontiguousarray(w.T))
            self.sums = nn.EmbeddingBag.from_pretrained(
                weight, freeze=False, mode="sum", sparse=True, include_last_offset=True
            )
            self.bias = nn.Parameter(torch.zeros(len(w)))

        def forward(self, rows):
            parts = map(torch.from_numpy, (rows.indices, rows.indptr, rows.data))
            return self.sums(*parts) + self.bias

    def linear(w):
        layer = nn.Linear(w.shape[1], w.shape[0])
        layer.weight.data = torch.from_numpy(w)
        nn.init.zeros_(layer.bias)
        return layer

    first, *others = weights((args.features, args.classes), args.seed)
    layers = [SparseLinear(first) if args.sparse else linear(first)]
    for w in others:
        layers += [nn.Sigmoid(), linear(w)]
    net = nn.Sequential(*layers)
    sparse = [layers[0].sums.weight] if args.sparse else []
    dense = [p for p in net.parameters() if not any(p is w for w in sparse)]
    optimizers = [torch.optim.SGD(dense, lr=args.rate, fused=True)]
    optimizers += [torch.optim.SGD(sparse, lr=args.rate)] if sparse else []
    loss_of = F.binary_cross_entropy_with_logits if args.sets else F.cross_entropy
    x = train.x if args.sparse else torch.from_numpy(train.x)
    y = torch.from_numpy(train.y)

    def step(rows):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss = loss_of(net(x[rows]), y[torch.from_numpy(rows)])
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        return loss.detach()

    return step


def tensorflow_net(args, train):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(args.threads)
    drawn = list(weights((args.features, args.classes), args.seed))
    kernels = [tf.Variable(w.T) for w in drawn]
    biases = [tf.Variable(tf.zeros(len(w))) for w in drawn]
    variables = kernels + biases

    def first_layer(x):
        if not args.sparse:
            return tf.matmul(x, kernels[0])
        row_of, features, values = x
        return tf.math.segment_sum(tf.gather(kernels[0], features) * values[:, None], row_of)

    def loss_of(x, y):
        x = first_layer(x) + biases[0]
        for w, b in zip(kernels[1:], biases[1:]):
            x = tf.matmul(tf.sigmoid(x), w) + b
        if args.sets:
            return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, x))
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, x))

    ones = [None]
    numbers = tf.TensorSpec([None, args.features])
    sparse = (tf.TensorSpec(ones, tf.int32), tf.TensorSpec(ones, tf.int32), tf.TensorSpec(ones))
    classes = tf.TensorSpec([None, args.classes]) if args.sets else tf.TensorSpec(ones, tf.int64)

    @tf.function(input_signature=[sparse if args.sparse else numbers, classes])
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(x, y)
        for v, g in zip(variables, tape.gradient(loss, variables)):
            if isinstance(g, tf.IndexedSlices):
                v.scatter_sub(tf.IndexedSlices(args.rate * g.values, g.indices))
            else:
                v.assign_sub(args.rate * g)
        return loss

    def step(rows):
        x = train.x[rows]
        if args.sparse:
            row_of = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(x.indptr))
            x = (row_of, x.indices, x.data)
        return train_step(x, train.y[rows])

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("system", choices=["torch", "tensorflow"])
    add("rows")
    add("--features", type=int, required=True)
    add("--classes", type=int, required=True)
    add("--sets", action="store_true", help="a row has a set of classes")
    add("--sparse", action="store_true", help="of rows and gradients only the features there are")
    add("--batch", type=int, default=16)
    add("--rate", type=float, default=0.01)
    add("--seed", type=int, default=1)
    add("--seconds", type=float, default=30)
    add("--window", type=int, default=10_000, help="rows, over which losses are averaged")
    args = parser.parse_args()
    args.threads = len(os.sched_getaffinity(0))
    train = read(args)
    make = {"torch": torch_net, "tensorflow": tensorflow_net}[args.system]
    step = make(args, train)
    rng = np.random.default_rng(args.seed)
    history, spent, trained, n = [], 0.0, 0, len(train)
    order, at = rng.permutation(n), 0
    step(order[: args.batch])  # takes longer than the others
    while spent < args.seconds:
        seen, total = 0, 0.0
        start = time.perf_counter()
        while seen < args.window:
            if at == n:
                order, at = rng.permutation(n), 0
            rows = order[at : at + args.batch]
            total += step(rows) * len(rows)
            seen, at = seen + len(rows), at + len(rows)
        loss = float(total) / seen
        seconds = time.perf_counter() - start
        if not loss < 1e6:
            break
        spent, trained = spent + seconds, trained + seen
        window = {"seconds": round(seconds, 4), "train_loss": round(loss, 6), "rows": seen}
        history.append(window)
    of_run = {"rows": trained, "train_seconds": round(spent, 4), "epoch_rows": n}
    print(json.dumps({"history": history, **of_run}))


if __name__ == "__main__":
    main()
