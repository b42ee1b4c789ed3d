"""The file of results: a JSON line per finished job."""

import json
import math


def key_of(fields):
    return json.dumps(fields, sort_keys=True)


class Results:
    """What is in the file; a job found there is not run again."""

    def __init__(self, path):
        self.path = path
        self.lines = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for number, line in enumerate(text.splitlines(), 1):
            try:
                record = json.loads(line)
                self.lines[key_of(record["job"])] = record
            except (ValueError, KeyError, TypeError):
                raise SystemExit(f"{path}, line {number}: not a result; delete the line and go on")

    def find(self, job):
        return self.lines.get(key_of(job.key()))

    def add(self, job, record):
        line = {"job": job.key(), **record}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
        self.lines[key_of(job.key())] = line
        return line

    def select(self, **wanted):
        """The records whose job has these fields."""
        return [
            record
            for record in self.lines.values()
            if all(record["job"][name] == value for name, value in wanted.items())
        ]


def epochs_to_target(record):
    """Infinity if the run did not get there."""
    return len(record["history"]) if record["outcome"] == "reached" else math.inf


def seconds_to_target(record):
    """Of training, without evaluation."""
    if record["outcome"] != "reached":
        return math.inf
    return sum(epoch["seconds"] for epoch in record["history"])


def best_accuracy(record):
    return max((epoch["test_accuracy"] for epoch in record["history"]), default=0.0)
