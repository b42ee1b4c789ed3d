"""What this machine is, and the versions of what is measured on it; None where it does not tell."""

import importlib.util
import os
import platform
import re
import subprocess
import sys

from bench import CROSSBOW
from bench.gpu import ours

GPU = ("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
PEERS = {
    "torch": "torch.__version__, 'CUDA', torch.version.cuda, 'cuDNN', torch.backends.cudnn.version()",
    "jax": "jax.__version__",
}
# A library's version and where it lies, of the first name that the loader finds.
PROBE = """
import ctypes, sys
function, *names = sys.argv[1:]
for name in names:
    try:
        version = getattr(ctypes.CDLL(name), function)
    except OSError:
        continue
    version.restype = ctypes.c_size_t
    maps = (line.split()[-1] for line in open("/proc/self/maps"))
    print(version(), next(path for path in maps if names[0] in path))
    break
"""


def said(command, environment=None):
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    except OSError:
        return None
    return done.stdout.strip() or None


def version_of(module):
    if importlib.util.find_spec(module):
        return said([sys.executable, "-c", f"import {module}; print({PEERS[module]})"])


def version_of_library(name, function):
    """Of the one that Crossbow loads: by its name, or else from where the build has found it."""
    places = re.findall(rb"(?:/[!-~]*)?%s\.so\.\d+" % name.encode(), CROSSBOW.read_bytes())
    names = sorted({place.decode() for place in places}, key=len)
    return said([sys.executable, "-c", PROBE, function, *names], ours.environment())


def description():
    return {
        "gpu": said(GPU),
        "crossbow": said([CROSSBOW, "devices"], ours.environment()),
        "cudnn": version_of_library("libcudnn", "cudnnGetVersion"),
        "cublaslt": version_of_library("libcublasLt", "cublasLtGetVersion"),
        "pytorch": version_of("torch"),
        "jax": version_of("jax"),
        "cpu": f"{os.cpu_count()} CPUs, {platform.platform()}",
    }
