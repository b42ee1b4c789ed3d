"""The data sets as NumPy arrays, read alike by all peers; pixels are bytes."""

import gzip
import pathlib

import numpy as np


def read_idx(path):
    raw = gzip.decompress(path.read_bytes())
    dimensions = raw[3]
    shape = [int.from_bytes(raw[4 * i + 4 : 4 * i + 8], "big") for i in range(dimensions)]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def read_mnist(folder, split):
    """Images as (n, 28, 28), and labels."""
    prefix = pathlib.Path(folder) / {"train": "train", "test": "t10k"}[split]
    return (
        read_idx(prefix.with_name(f"{prefix.name}-images-idx3-ubyte.gz")),
        read_idx(prefix.with_name(f"{prefix.name}-labels-idx1-ubyte.gz")),
    )


def read_cifar(folder, split):
    """CIFAR-10's binary files, as (n, 3, 32, 32), and labels. They may lie in the archive's folder."""
    names = {"train": [f"data_batch_{i}.bin" for i in range(1, 6)], "test": ["test_batch.bin"]}
    inner = pathlib.Path(folder) / "cifar-10-batches-bin"
    folder = inner if inner.is_dir() else pathlib.Path(folder)
    raw = b"".join((folder / name).read_bytes() for name in names[split])
    records = np.frombuffer(raw, np.uint8).reshape(-1, 1 + 3 * 32 * 32)
    return records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0]


def read_image_folder(folder, split):
    """SPLIT/CLASS/* as (n, height, width, 3), and labels: classes in the order of their names."""
    from PIL import Image  # JAX's learner does without

    images, labels = [], []
    classes = sorted(path for path in (pathlib.Path(folder) / split).iterdir() if path.is_dir())
    for label, path in enumerate(classes):
        for image in sorted(path.iterdir()):
            images.append(np.asarray(Image.open(image).convert("RGB")))
            labels.append(label)
    return np.stack(images), np.asarray(labels)
