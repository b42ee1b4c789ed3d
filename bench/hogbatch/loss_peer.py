"""The mlp in PyTorch or TensorFlow on rows in LIBSVM's format; prints losses and seconds by epoch as
JSON. Weights are drawn as Crossbow draws them."""

import argparse
import json
import os
import time

import numpy as np
from sklearn.datasets import load_svmlight_file

LAYERS, WIDTH = 8, 512
EVALUATED = 4096  # rows at a time


class Rows:
    """All numbers of rows, and classes, or a 1 for each class of a set. `names` are the labels of
    both files, ascending."""

    def __init__(self, rows, labels, names, sets):
        self.x = rows.toarray().astype(np.float32)
        if sets:
            self.y = np.zeros((len(self.x), len(names)), np.float32)
            for row, of_row in enumerate(labels):
                self.y[row, np.searchsorted(names, of_row)] = 1
        else:
            self.y = np.searchsorted(names, labels)


def read(path, features, sets):
    """The training and the test rows."""
    files = [path, path + ".t"]
    loaded = [load_svmlight_file(f, n_features=features, multilabel=sets) for f in files]
    labels = [list(of_row) if sets else [of_row] for _, of in loaded for of_row in of]
    names = np.unique([label for of_row in labels for label in of_row])
    return [Rows(*of, names, sets) for of in loaded]


def weights(shape, seed):
    """Of each layer, [outputs, inputs]."""
    rng = np.random.default_rng(seed)
    sizes = [shape[0], *[WIDTH] * LAYERS, shape[1]]
    for layer, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
        last = layer == LAYERS
        bound = np.sqrt(3 / inputs) if last else 4 * np.sqrt(6 / (inputs + outputs))
        yield rng.uniform(-bound, bound, (outputs, inputs)).astype(np.float32)


def torch_net(args, train, test):
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(args.threads)
    layers = []
    for w in weights((args.features, args.classes), args.seed):
        layer = nn.Linear(w.shape[1], w.shape[0])
        layer.weight.data = torch.from_numpy(w)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.Sigmoid()]
    net = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.SGD(net.parameters(), lr=args.rate, fused=True)
    loss_of = F.binary_cross_entropy_with_logits if args.sets else F.cross_entropy
    x, y = torch.from_numpy(train.x), torch.from_numpy(train.y)
    test_x, test_y = torch.from_numpy(test.x), torch.from_numpy(test.y)

    def step(rows):
        rows = torch.from_numpy(rows)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(net(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def evaluate(rows):
        return loss_of(net(test_x[rows]), test_y[rows])

    return step, evaluate


def tensorflow_net(args, train, test):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(args.threads)
    tf.config.threading.set_inter_op_parallelism_threads(args.threads)
    drawn = list(weights((args.features, args.classes), args.seed))
    kernels = [tf.Variable(w.T) for w in drawn]
    biases = [tf.Variable(tf.zeros(len(w))) for w in drawn]
    variables = kernels + biases

    def loss_of(x, y):
        for w, b in zip(kernels[:-1], biases):
            x = tf.sigmoid(tf.matmul(x, w) + b)
        x = tf.matmul(x, kernels[-1]) + biases[-1]
        if args.sets:
            return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, x))
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, x))

    rows = [None] if not args.sets else [None, args.classes]
    kind = tf.float32 if args.sets else tf.int64
    signature = [tf.TensorSpec([None, args.features]), tf.TensorSpec(rows, kind)]

    @tf.function(input_signature=signature)
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(x, y)
        for v, g in zip(variables, tape.gradient(loss, variables)):
            v.assign_sub(args.rate * g)
        return loss

    evaluate = tf.function(loss_of, input_signature=signature)
    train_step.get_concrete_function()  # traces it
    return (
        lambda rows: train_step(train.x[rows], train.y[rows]),
        lambda rows: evaluate(test.x[rows], test.y[rows]),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("system", choices=["torch", "tensorflow"])
    add("rows")
    add("--features", type=int, required=True)
    add("--classes", type=int, required=True)
    add("--sets", action="store_true", help="a row has a set of classes")
    add("--batch", type=int, default=16)
    add("--rate", type=float, default=0.01)
    add("--seed", type=int, default=1)
    add("--seconds", type=float, default=30)
    args = parser.parse_args()
    args.threads = len(os.sched_getaffinity(0))
    train, test = read(args.rows, args.features, args.sets)
    make = {"torch": torch_net, "tensorflow": tensorflow_net}[args.system]
    step, evaluate = make(args, train, test)
    rng = np.random.default_rng(args.seed)
    all_rows = np.arange(len(test.x))
    evaluate(all_rows[:EVALUATED])
    history, spent, n = [], 0.0, len(train.x)
    while spent < args.seconds:
        order, total = rng.permutation(n), 0.0
        start = time.perf_counter()
        for first in range(0, n, args.batch):
            rows = order[first : first + args.batch]
            total += step(rows) * len(rows)
        total = float(total)
        seconds = time.perf_counter() - start
        spent += seconds
        parts = [all_rows[i : i + EVALUATED] for i in range(0, len(all_rows), EVALUATED)]
        test_loss = sum(float(evaluate(part)) * len(part) for part in parts) / len(all_rows)
        if not test_loss < 1e6:
            break
        history.append({"seconds": seconds, "train_loss": total / n, "test_loss": test_loss})
    print(json.dumps({"history": history, "workers": None}))


if __name__ == "__main__":
    main()
