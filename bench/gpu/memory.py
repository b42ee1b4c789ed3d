"""The GPUs' memory that is taken, by all processes, as NVIDIA's driver says."""

import subprocess
import threading

from bench import Failed, last_line

QUERY = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")


def used():
    """In MiB."""
    try:
        done = subprocess.run(QUERY, capture_output=True, text=True)
    except OSError as error:
        raise Failed(f"{QUERY[0]}: {error.strerror}")
    if done.returncode != 0:
        raise Failed(f"{QUERY[0]}: {last_line(done.stdout + done.stderr)}")
    return sum(int(line) for line in done.stdout.split())


class Watch:
    """Looks again and again while it is entered; `most` is the largest that was seen."""

    def __init__(self):
        self.most = used()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)

    def look(self):
        while not self.ended.wait(0.1):
            self.most = max(self.most, used())

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
