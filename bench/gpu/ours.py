"""Crossbow's own programs, and where they find their libraries."""

import importlib.util
import os
import pathlib

from bench import CROSSBOW, ROOT

TESTS = CROSSBOW.with_name("crossbow_tests")


def libraries_of_python():
    """The folders of a cuDNN that PyTorch has brought with it, and of what cuDNN loads; or none."""
    spec = importlib.util.find_spec("nvidia")
    for parent in spec.submodule_search_locations if spec else []:
        folder = pathlib.Path(parent)
        if (folder / "cudnn/lib/libcudnn.so.9").exists():
            return [folder / "cudnn/lib", *folder.glob("cu[0-9]*/lib")]
    return []


def environment():
    """Of these programs alone: another system would not start with the libraries of a pack."""
    packed = ROOT / "lib"
    folders = [packed if packed.is_dir() else None, os.environ.get("LD_LIBRARY_PATH")]
    paths = [str(f) for f in (*folders, *libraries_of_python()) if f]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(paths)} if paths else dict(os.environ)
