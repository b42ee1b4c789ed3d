"""Files that Crossbow and PyTorch exchange here."""

import json
import pathlib
import struct

import numpy as np


def write_safetensors(path, tensors):
    header, at = {}, 0
    arrays = {name: np.ascontiguousarray(t, np.float32) for name, t in tensors.items()}
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape),
                        "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(array.tobytes())


def read_safetensors(path, kind):
    """Arrays by name, all of that kind of number."""
    data = bytearray(pathlib.Path(path).read_bytes())
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)

    def values(begin, end):
        return np.frombuffer(data, kind, (end - begin) // np.dtype(kind).itemsize, 8 + length + begin)

    return {name: values(*entry["data_offsets"]).reshape(entry["shape"]) for name, entry in header.items()}


def write_pictures(folder, classes):
    from PIL import Image

    draw = np.random.default_rng(1)
    for split in ("train", "test"):
        for name in range(classes):
            place = folder / split / f"class{name}"
            place.mkdir(parents=True)
            Image.fromarray(draw.integers(0, 256, (40, 40, 3), np.uint8)).save(place / "0.png")
