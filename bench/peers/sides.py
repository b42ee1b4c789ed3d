"""The sides that are measured: Crossbow, a peer, and one peer process per CPU."""

import json
import os
import re
import signal
import subprocess
import tempfile
import threading

from bench import CROSSBOW, PEERS_PYTHON
from bench.nets import NETS
from bench.peers.peer import MODULES

PREPARE_LIMIT = 300  # seconds until a peer must be compiled and warm


class Failed(Exception):
    """One sentence that says why a side gave no figure."""


class IllegalInstruction(Failed):
    pass


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it printed nothing"


def options_of(case):
    names = ("model", "batch", "precision")
    return [word for name in names for word in (f"--{name}", str(case[name]))]


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
        limit = 60 + 10 * seconds
        command = [*self.command, "--seconds", str(seconds)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"no answer within {limit:.0f} s") from error
        if done.returncode != 0:
            raise Failed(f"exit status {done.returncode}: {last_line(done.stderr)}")
        answer = json.loads(done.stdout)
        if answer["parameters"] != self.parameters:
            raise Failed(f"it has {answer['parameters']} parameters, not {self.parameters}")
        self.reached.append(float(re.search(r"(\d+) % reached", done.stderr).group(1)))
        return answer["images_per_second"]


class Peer:
    """A peer's process, which stays warm between measurements."""

    def __init__(self, peer, case, variant, cpus):
        self.variant, self.cpus, self.process = variant, cpus, None
        self.command = [PEERS_PYTHON, "-m", MODULES[peer], *options_of(case), "--variant", variant]

    def start(self):
        """Returns the seconds until the peer was compiled and warm."""
        self.launch()
        return self.prepared()

    def launch(self):
        cache = PEERS_PYTHON.parent.parent / "inductor-cache"
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            bufsize=1,
            start_new_session=True,  # so that compiler processes end with it
            preexec_fn=lambda: os.sched_setaffinity(0, self.cpus),
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache)},
        )

    def prepared(self):
        return self.answer(PREPARE_LIMIT)["prepare_seconds"]

    def measure(self, seconds):
        self.ask(seconds)
        return self.measured(seconds)

    def ask(self, seconds):
        try:
            self.process.stdin.write(f"{seconds}\n")
        except OSError:
            pass  # it has died, and answer() says of what

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
            raise Failed(f"no answer within {limit:.0f} s")
        if status == -signal.SIGILL:
            raise IllegalInstruction("illegal instruction")
        self.errors.seek(0)
        raise Failed(f"exit status {status}: {last_line(self.errors.read())}")

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def stop(self):
        if self.process:
            self.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.errors.close()
            self.process = None


class PeerPerCpu:
    """Independent processes with one thread each, never synchronised: a bound for any data-parallel
    use of the peer."""

    def __init__(self, peer, case, variant, cpus):
        self.peers = [Peer(peer, case, variant, [cpu]) for cpu in cpus]

    def start(self):
        for peer in self.peers:
            peer.launch()
        for peer in self.peers:
            peer.prepared()

    def measure(self, seconds):
        for peer in self.peers:
            peer.ask(seconds)
        return sum(peer.measured(seconds) for peer in self.peers)

    def stop(self):
        for peer in self.peers:
            peer.stop()
