"""Whether Python opens what Crossbow has saved."""

import pathlib
import subprocess
import tempfile

import numpy as np
import torch

from bench import CROSSBOW, log
from bench.near_pytorch.files import read_safetensors, write_pictures
from bench.near_pytorch.nets import EXPORTED


def strict_load(name, folder, classes):
    """The number of tensors that torchvision's net has taken from what `crossbow export` wrote."""
    run, exported = folder / "run", folder / "exported.safetensors"
    training = [CROSSBOW, "train", "--model", name, "--data", f"imagenet:{folder / 'pictures'}", "--out", run]
    training += ["--epochs", "1", "--batch", str(classes)]
    subprocess.run(training, check=True, capture_output=True)
    subprocess.run([CROSSBOW, "export", run, exported], check=True, capture_output=True)
    arrays = read_safetensors(exported, np.float32)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    EXPORTED[name](num_classes=classes).load_state_dict(tensors, strict=True)
    return len(tensors)


def load_exports(names, classes=2):
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            write_pictures(folder / "pictures", classes)
            count = strict_load(name, folder, classes)
            log(f"{name}: {count} tensors")
            yield [name, count]
