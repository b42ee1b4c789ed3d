"""Sparse logistic regression in steps of one row by another system; prints rows/s as JSON."""

import argparse
import json
import time

import numpy as np

ROWS, FEATURES, LEAST, MOST = 65079, 20958, 20, 84
RATE = 0.1


def draw():
    """Rows as like-real-sim has them, in CSR, and random classes."""
    rng = np.random.default_rng(1)
    columns, ends = [], [0]
    for draws in rng.integers(LEAST, MOST + 1, ROWS):
        columns.append(np.unique((rng.random(draws) ** 2 * FEATURES).astype(np.int32)))
        ends.append(ends[-1] + len(columns[-1]))
    values = [0.1 + rng.random(len(row)) for row in columns]
    values = [row / np.linalg.norm(row) for row in values]
    classes = rng.integers(0, 2, ROWS)
    return np.concatenate(columns), np.concatenate(values), np.array(ends), classes


def sklearn(epochs):
    import scipy.sparse
    from sklearn.linear_model import SGDClassifier

    columns, values, ends, classes = draw()
    rows = scipy.sparse.csr_matrix((values, columns, ends), shape=(ROWS, FEATURES))
    shape = {"penalty": None, "learning_rate": "constant", "eta0": RATE}
    model = SGDClassifier(loss="log_loss", max_iter=epochs, tol=None, **shape)
    model.fit(rows[:100], classes[:100])  # warms up
    start = time.perf_counter()
    model.fit(rows, classes)
    return epochs * ROWS / (time.perf_counter() - start)


def torch(epochs):
    """A few thousand rows are enough to time it; making tensors of them does not count."""
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(1)
    columns, values, ends, classes = (torch.from_numpy(array) for array in draw())
    rows = min(epochs * 1000, ROWS)
    cut = [slice(ends[row], ends[row + 1]) for row in range(rows)]
    indices = [columns[at].long() for at in cut]
    weights = [values[at].float() for at in cut]
    labels = [classes[row : row + 1].long() for row in range(rows)]
    offsets = torch.zeros(1, dtype=torch.long)
    bag = torch.nn.EmbeddingBag(FEATURES, 2, mode="sum", sparse=True)
    bias = torch.nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([bag.weight, bias], lr=RATE)

    def step(row):
        optimizer.zero_grad(set_to_none=True)
        y = bag(indices[row], offsets, per_sample_weights=weights[row]) + bias
        F.cross_entropy(y, labels[row]).backward()
        optimizer.step()

    for row in range(200):
        step(row)
    start = time.perf_counter()
    for row in range(rows):
        step(row)
    return rows / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("system", choices=["sklearn", "torch"])
    parser.add_argument("--epochs", type=int, default=10)
    args = parser.parse_args()
    speed = {"sklearn": sklearn, "torch": torch}[args.system](args.epochs)
    print(json.dumps({"rows_per_second": speed}))


if __name__ == "__main__":
    main()
