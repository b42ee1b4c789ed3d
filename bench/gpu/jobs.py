"""What is done once and is a line of the results."""

import typing


class Job(typing.NamedTuple):
    stage: str
    fields: dict

    def key(self):
        return {"stage": self.stage, **self.fields}


def fields_of(record):
    return {name: value for name, value in record["job"].items() if name != "stage"}
