"""Do TensorFlow and webdataset read what `crossbow convert` writes?

    python -m bench.input.read_by_peers FOLDER

FOLDER is a set of pictures in folders of classes, train/CLASS/* and val/CLASS/*. It is converted to
TFRecords and to tars, and the peers that this Python has, tensorflow and webdataset, must find in
these all pictures, byte for byte, under their classes.
"""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile

from bench import CROSSBOW


def pictures_of(folder):
    """(bytes, class) of each."""
    return [(f.read_bytes(), f.parent.name) for f in sorted(folder.glob("*/*")) if f.is_file()]


def by_tensorflow(folder, split):
    import tensorflow as tf

    features = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        "image/class/text": tf.io.FixedLenFeature([], tf.string),
    }
    names = (folder / "classes.txt").read_text().splitlines()
    split = {"train": "train", "val": "validation"}[split]
    files = sorted(map(str, folder.glob(f"{split}-*-of-*")))
    for record in tf.data.TFRecordDataset(files):
        example = tf.io.parse_single_example(record, features)
        encoded = example["image/encoded"].numpy()
        name = example["image/class/text"].numpy().decode()
        if names[int(example["image/class/label"]) - 1] != name:  # which counts from 1
            raise SystemExit(f"label {int(example['image/class/label'])} is called {name}")
        if tf.io.decode_image(encoded).shape[2] not in (1, 3, 4):
            raise SystemExit("a picture of an odd number of channels")
        yield encoded, name


def by_webdataset(folder, split):
    import webdataset

    names = (folder / "classes.txt").read_text().splitlines()
    files = sorted(map(str, folder.glob(f"{split}-*.tar")))
    for encoded, label in webdataset.WebDataset(files, shardshuffle=False).to_tuple(
        "jpg;jpeg;png", "cls"
    ):
        yield encoded, names[int(label)]


PEERS = {
    "tensorflow": ("tfrecord", by_tensorflow),
    "webdataset": ("tar", by_webdataset),
}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    source = pathlib.Path(sys.argv[1])
    here = [name for name in PEERS if importlib.util.find_spec(name)]
    if not here:
        sys.exit(f"this Python has neither {' nor '.join(PEERS)}")
    for name in here:
        kind, read = PEERS[name]
        with tempfile.TemporaryDirectory() as folder:
            target = f"{kind}:{folder}/set"
            subprocess.run([CROSSBOW, "convert", f"imagefolder:{source}", target], check=True)
            for split in ("train", "val"):
                expected = pictures_of(source / split)
                found = sorted(read(pathlib.Path(folder) / "set", split))
                if found != sorted(expected):
                    sys.exit(f"{name}: {split} has {len(found)} pictures that differ")
                print(f"{name}: {split}: {len(found)} pictures, the same", flush=True)


if __name__ == "__main__":
    main()
