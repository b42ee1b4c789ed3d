"""Processes that are asked once, and answer at their end."""

import json
import os
import subprocess

from bench import Failed, last_line


class TooLate(Failed):
    def __init__(self, limit):
        super().__init__(f"no answer within {limit:.0f} s")


def finished(command, limit=None, environment=None):
    """What the process has printed, if it has ended well within so many seconds."""
    command = [str(word) for word in command]
    shape = {"capture_output": True, "text": True, "timeout": limit, "env": environment}
    try:
        done = subprocess.run(command, **shape)
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise TooLate(limit) from error
    if done.returncode != 0:
        raise Failed(f"exit status {done.returncode}: {last_line(done.stderr)}")
    return done


def answer_of(command, limit=None, environment=None):
    """The JSON that it prints."""
    return json.loads(finished(command, limit, environment).stdout)


def on_cpus(cpus, command):
    """Whatever a process binds its threads to is then one of these."""
    return ["taskset", "-c", ",".join(map(str, cpus)), *command]


def with_one_thread():
    """The environment of a process that is not to have threads of its own making."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def keep_freed_memory():
    """glibc gives what a step has freed back to the system and must fetch it again page by page in
    the next: 7 to 17 % of PyTorch's time at resnet-32, which training does not lose once it has
    freed something as large as a data set. No process begun from now on is to lose it."""
    for limit in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"):
        os.environ.setdefault(limit, str(1 << 30))
