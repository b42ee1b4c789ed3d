"""The sides that `run` measures: Crossbow, a peer, and one peer process per CPU."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading

import common

HERE = pathlib.Path(__file__).resolve().parent


class Failed(Exception):
    """One sentence that says why a side gave no figure."""


class IllegalInstruction(Failed):
    pass


class Crossbow:
    """A process of its own for each measurement: one learner on all CPUs, or one for each of them,
    synchronised by model averaging."""

    def __init__(self, path, case, cpus, learners):
        self.model = case["model"]
        self.reached = []  # per cent of the bound, by measurement
        self.command = [
            path,
            "bench",
            "--json",
            "--model",
            case["model"],
            "--batch",
            str(case["batch"]),
            "--learners",
            str(learners),
            "--threads-per-learner",
            str(cpus // learners),
            "--sync",
            "none" if learners == 1 else "sma",
            "--precision",
            case["precision"],
        ]

    def measure(self, seconds):
        limit = 60 + 10 * seconds
        try:
            done = subprocess.run(
                [*self.command, "--seconds", str(seconds)],
                capture_output=True,
                text=True,
                timeout=limit,
            )
        except subprocess.TimeoutExpired as error:
            raise Failed(f"no answer within {limit:.0f} s") from error
        if done.returncode != 0:
            raise Failed(f"exit status {done.returncode}: {last_line(done.stderr)}")
        answer = json.loads(done.stdout)
        if answer["parameters"] != common.NETS[self.model][2]:
            raise Failed(
                f"its {self.model} has {answer['parameters']} parameters, "
                f"not {common.NETS[self.model][2]}"
            )
        self.reached.append(float(re.search(r"(\d+) % reached", done.stderr).group(1)))
        return answer["images_per_second"]


class Peer:
    """A peer's process, which stays warm between measurements."""

    def __init__(self, python, peer, case, variant, cpus):
        self.variant = variant
        self.python = python
        self.command = [
            python,
            HERE / common.SCRIPTS[peer],
            "--model",
            case["model"],
            "--batch",
            str(case["batch"]),
            "--variant",
            variant,
            "--precision",
            case["precision"],
            "--cpus",
            ",".join(map(str, cpus)),
        ]
        self.process = None

    def start(self, limit):
        """Returns the seconds until the peer was compiled and warm."""
        self.launch()
        return self.answer(limit)["prepare_seconds"]

    def launch(self):
        cache = self.python.parent.parent / "inductor-cache"
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            bufsize=1,
            start_new_session=True,
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache)},
        )

    def measure(self, seconds):
        self.ask(seconds)
        return self.answer(60 + 10 * seconds)["images_per_second"]

    def ask(self, seconds):
        try:
            self.process.stdin.write(f"{seconds}\n")
        except OSError:
            pass  # it has died, and answer() says of what

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
            os.killpg(
                self.process.pid, signal.SIGKILL
            )  # its own session: compiler processes end with it
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

    def __init__(self, python, peer, case, variant, cpus):
        self.peers = [Peer(python, peer, case, variant, [cpu]) for cpu in cpus]

    def start(self, limit):
        for peer in self.peers:
            peer.launch()
        for peer in self.peers:
            peer.answer(limit)

    def measure(self, seconds):
        for peer in self.peers:
            peer.ask(seconds)
        return sum(peer.answer(60 + 10 * seconds)["images_per_second"] for peer in self.peers)

    def stop(self):
        for peer in self.peers:
            peer.stop()


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it printed nothing"
