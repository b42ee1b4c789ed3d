"""The sides that are measured: Crossbow, a peer, and one peer process per CPU."""

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading

from bench import CROSSBOW, PEERS_PYTHON, Failed, last_line
from bench.nets import NETS
from bench.processes import TooLate, finished

WARM_UP = 1.0  # seconds
PREPARE_LIMIT = 300  # seconds until a peer must be compiled and warm


class IllegalInstruction(Failed):
    pass


def options_of(case):
    names = ("model", "batch", "precision")
    return [word for name in names for word in (f"--{name}", str(case[name]))]


def ask_crossbow(command, parameters, limit, environment=None):
    """What crossbow bench answers, of a net of so many parameters, and what it says beside."""
    done = finished(command, limit, environment)
    answer = json.loads(done.stdout)
    if answer["parameters"] != parameters:
        raise Failed(f"it has {answer['parameters']} parameters, not {parameters}")
    return answer, done.stderr


class Crossbow:
    """A process of its own for each measurement: one learner on all CPUs, or one for each of them,
    synchronised by model averaging."""

    def __init__(self, case, cpus, learners):
        self.parameters = NETS[case["model"]][2]
        self.reached = []  # per cent of the bound, by measurement
        self.command = [
            *(CROSSBOW, "bench", "--json", *options_of(case), "--learners", str(learners)),
            *("--threads-per-learner", str(cpus // learners)),
            *("--sync", "none" if learners == 1 else "sma"),
        ]

    def measure(self, seconds):
        command = [*self.command, "--seconds", str(seconds)]
        answer, said = ask_crossbow(command, self.parameters, 60 + 10 * seconds)
        self.reached.append(float(re.search(r"(\d+) % reached", said).group(1)))
        return answer["images_per_second"]


class Process:
    """A peer's process, which stays warm between measurements. It is asked to warm up first: see
    peer.py."""

    def __init__(self, python, module, case, variant, cpus):
        command = [python, "-m", module, *options_of(case), "--variant", variant]
        cache = PEERS_PYTHON.parent.parent / "inductor-cache"
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            bufsize=1,
            start_new_session=True,  # so that compiler processes end with it
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache)},
        )

    def prepared(self, limit=PREPARE_LIMIT):
        """The seconds until the peer was compiled and warm."""
        return self.answer(limit)["prepare_seconds"]

    def ask(self, seconds):
        with contextlib.suppress(OSError):  # it has died: answer() says of what
            self.process.stdin.write(f"{seconds}\n")

    def measured(self, seconds):
        return self.answer(60 + 10 * seconds)["images_per_second"]

    def answer(self, limit):
        timer = threading.Timer(limit, self.kill)
        timer.start()
        try:
            line = self.process.stdout.readline()
        finally:
            timer.cancel()  # an exit would wait for it
        if line:
            return json.loads(line)
        status = self.process.wait()
        if status == -signal.SIGKILL:
            raise TooLate(limit)
        if status == -signal.SIGILL:
            raise IllegalInstruction("illegal instruction")
        self.errors.seek(0)
        raise Failed(f"exit status {status}: {last_line(self.errors.read())}")

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def stop(self):
        self.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            with contextlib.suppress(OSError):
                stream.close()


class Peers:
    """Processes of a peer that run side by side, one for each of `groups` of CPUs, and never
    synchronise. One for each CPU bound any data-parallel use of the peer."""

    def __init__(self, peer, case, variant, groups):
        self.variant = variant
        module = f"bench.peers.{peer}_peer"
        self.processes = [Process(PEERS_PYTHON, module, case, variant, cpus) for cpus in groups]

    def start(self):
        """Returns the seconds until all were compiled and warm."""
        for process in self.processes:
            process.ask(WARM_UP)
        return max(process.prepared() for process in self.processes)

    def measure(self, seconds):
        for process in self.processes:
            process.ask(seconds)
        return sum(process.measured(seconds) for process in self.processes)

    def stop(self):
        for process in self.processes:
            process.stop()
