"""The file of results: a JSON line per finished job."""

import json
import math


def key_of(fields):
    return json.dumps(fields, sort_keys=True)


class Results:
    """What is in the file; a job found there is not run again."""

    def __init__(self, path):
        self.path, self.lines = path, {}
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


def select(records, **wanted):
    """Those whose job has these fields; a tuple gives alternatives."""

    def matches(job):
        return all(
            job[field] in value if isinstance(value, tuple) else job[field] == value
            for field, value in wanted.items()
        )

    return [record for record in records if matches(record["job"])]


def group(records, key):
    """Lists of the records by `key(job)`."""
    groups = {}
    for record in records:
        groups.setdefault(key(record["job"]), []).append(record)
    return groups


def epochs_to_target(record):
    """Infinity if the run did not get there."""
    return len(record["history"]) if record["outcome"] == "reached" else math.inf


def seconds_to_target(record):
    """Of training, without evaluation."""
    reached = record["outcome"] == "reached"
    return sum(epoch["seconds"] for epoch in record["history"]) if reached else math.inf


def best_accuracy(record):
    return max((epoch["test_accuracy"] for epoch in record["history"]), default=0.0)


def final_accuracy(record):
    return 0.0 if record["outcome"] == "diverged" else record["history"][-1]["test_accuracy"]


def by_merit(record):
    """Sorts fewest epochs first, then the highest accuracy."""
    return epochs_to_target(record), -best_accuracy(record)
