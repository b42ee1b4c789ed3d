"""NVIDIA's Multi-Process Service, by which kernels of several processes run at the same time."""

import contextlib
import os
import shutil
import subprocess
import tempfile

from bench import Failed, last_line

CONTROL = shutil.which("nvidia-cuda-mps-control")
LIMIT = 20  # seconds of a command


def control(*options, command=""):
    with tempfile.TemporaryFile("w+") as said:  # no pipe: a daemon may keep it open
        try:
            done = subprocess.run(
                [CONTROL, *options],
                input=command,
                stdout=said,
                stderr=said,
                text=True,
                timeout=LIMIT,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failed(f"MPS: {error}") from error
        said.seek(0)
        if done.returncode != 0:
            raise Failed(f"MPS: exit status {done.returncode}: {last_line(said.read())}")


@contextlib.contextmanager
def shared():
    """The processes that begin meanwhile share the GPU by a daemon of their own."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        before = os.environ.copy()
        os.environ["CUDA_MPS_PIPE_DIRECTORY"] = os.environ["CUDA_MPS_LOG_DIRECTORY"] = folder
        try:
            control("-d")
            yield
        finally:
            with contextlib.suppress(Failed):  # it may not have begun
                control(command="quit -t 10\n")
            os.environ.clear()
            os.environ.update(before)
