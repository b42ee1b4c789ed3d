"""MNIST's files, read alike by both peers; pixels are bytes."""

import gzip

import numpy as np


def read_idx(path):
    raw = gzip.decompress(path.read_bytes())
    dimensions = raw[3]
    shape = [int.from_bytes(raw[4 * i + 4 : 4 * i + 8], "big") for i in range(dimensions)]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def read(folder, split):
    """Images as (n, 28, 28) bytes, and labels."""
    prefix = {"train": "train", "test": "t10k"}[split]
    return (
        read_idx(folder / f"{prefix}-images-idx3-ubyte.gz"),
        read_idx(folder / f"{prefix}-labels-idx1-ubyte.gz"),
    )
