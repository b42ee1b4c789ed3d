"""Machines on this one: network namespaces, with one network for a launcher's daemons and one for ranks.
They need root."""

import os
import subprocess

DAEMONS, RANKS = "10.77.1", "10.77.2"
AGENT = """#!/bin/sh
host=$1
shift
rename='echo "$0" >/proc/sys/kernel/hostname && exec sh -c "$1"'
exec ip netns exec "$host" unshare -u sh -c "$rename" "$host" "$*"
"""


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, stderr=subprocess.DEVNULL)


class Hosts:
    def __init__(self, count, folder):
        self.switch = f"cf{os.getpid()}"  # has the bridges; all goes with it
        self.names = [f"{self.switch}-{host}" for host in range(count)]
        self.agent = folder / "agent"
        self.agent.write_text(AGENT)
        self.agent.chmod(0o755)
        ip("netns", "add", self.switch)
        for network in "dr":
            ip("-n", self.switch, "link", "add", "name", network, "type", "bridge")
            ip("-n", self.switch, "link", "set", "dev", network, "up")
        for number, name in enumerate(self.names):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "dev", "lo", "up")
            for network, address in (("d", DAEMONS), ("r", RANKS)):
                cable = ["dev", f"{network}{number}"]
                ends = ["type", "veth", "peer", "name", network, "netns", name]
                ip("-n", self.switch, "link", "add", "name", cable[1], *ends)
                ip("-n", self.switch, "link", "set", *cable, "master", network, "up")
                ip("-n", name, "link", "set", "dev", network, "up")
                ip("-n", name, "addr", "add", f"{address}.{number + 1}/24", "dev", network)

    def cut(self, number, down=True):
        """Or mends a host's cable of the network for ranks."""
        ip("-n", self.switch, "link", "set", "dev", f"r{number}", "down" if down else "up")

    def options(self):
        """Of mpirun, which is to run on the first host."""
        return [
            *("--prtemca", "plm_ssh_agent", self.agent),
            *("--prtemca", "oob_tcp_if_include", f"{DAEMONS}.0/24"),
            *("--mca", "btl_tcp_if_include", f"{RANKS}.0/24"),
            *("--host", ",".join(f"{name}:1" for name in self.names)),
        ]

    def remove(self):
        for name in (*self.names, self.switch):
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)
