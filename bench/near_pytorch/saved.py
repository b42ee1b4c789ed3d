"""Whether Python opens what Crossbow has saved."""

import json
import pathlib
import subprocess
import tempfile

import numpy as np
import torch

from bench import CROSSBOW, Failed, log
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


def open_checkpoint(run, exported):
    """How many tensors of the model's own, and of the learners', Python's safetensors finds in a run's
    checkpoint; the first are to be those of the exported file."""
    import safetensors

    expected, others = read_safetensors(exported, np.float32), 0
    with safetensors.safe_open(run / "checkpoint", "np") as checkpoint:
        found = {name: checkpoint.get_tensor(name) for name in checkpoint.keys()}
        state = json.loads(checkpoint.metadata()["run"])
    for name, array in found.items():
        whose, _, own = name.rpartition("/")
        others += bool(whose)
        if whose and whose.split(".")[0] not in ("learner", "central"):
            raise Failed(f"{run}: nobody has {name}")
        if array.shape != expected[own].shape:
            raise Failed(f"{run}: {name} has shape {array.shape} instead of {expected[own].shape}")
        if not whose and array.tobytes() != expected[own].tobytes():
            raise Failed(f"{run}: {name} has other values than the exported one")
    if len(found) - others != len(expected):
        raise Failed(f"{run}: {len(found) - others} of the {len(expected)} exported tensors are there")
    if state["position"]["epoch"] != 1:
        raise Failed(f"{run}: epoch {state['position']['epoch']} instead of 1")
    return len(expected), others


def open_checkpoints():
    """Of runs of two learners, by algorithm."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_pictures(folder / "pictures", classes=4)
        for sync in ("sma", "easgd", "ssgd", "hogwild"):
            run, exported = folder / sync, folder / f"{sync}.safetensors"
            training = [CROSSBOW, "train", "--model", "resnet-20"]
            training += ["--data", f"imagefolder:{folder / 'pictures'}", "--image-size", "32"]
            training += ["--epochs", "1", "--batch", "2", "--learners", "2"]
            subprocess.run([*training, "--sync", sync, "--out", run], check=True, capture_output=True)
            subprocess.run([CROSSBOW, "export", run, exported], check=True, capture_output=True)
            yield [sync, *open_checkpoint(run, exported)]
