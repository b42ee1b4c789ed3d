"""The results as Markdown tables, with plots beside them."""

import math

import accuracy
import efficiency
import plots
import tasks
from report import table
from results import best_accuracy, epochs_to_target, seconds_to_target


def epochs_cell(records):
    """Each seed's epochs, or how the run ended and the best accuracy it saw."""
    words = []
    for record in sorted(records, key=lambda r: r["job"]["seed"]):
        if record["outcome"] == "reached":
            words.append(str(epochs_to_target(record)))
        elif record["outcome"] == "diverged":
            words.append("diverged")
        else:
            words.append(f">{len(record['history'])} ({100 * best_accuracy(record):.2f} %)")
    return ", ".join(words) or "–"


def values(records, field):
    return sorted({record["job"][field] for record in records})


def tuning_tables(records):
    for batch in values(records, "batch"):
        of_batch = [r for r in records if r["job"]["batch"] == batch]
        rates = values(of_batch, "rate")
        yield f"Batch {batch}:\n"
        yield table(
            ["", *(f"rate {rate:g}" for rate in rates)],
            [
                [
                    contestant.name,
                    *(epochs_cell(by_name(of_batch, contestant.name, rate=rate)) for rate in rates),
                ]
                for contestant in accuracy.CONTESTANTS.values()
                if by_name(of_batch, contestant.name)
            ],
        )


def by_name(records, name, **wanted):
    return [
        r
        for r in records
        if accuracy.contestant_of(r["job"]) == name
        and all(r["job"][field] == value for field, value in wanted.items())
    ]


def speed_table(records):
    batches = values(records, "batch")

    def seconds(batch, of_way):
        found = [r["history"][-1]["seconds"] for r in of_way if r["job"]["batch"] == batch]
        return f"{found[-1]:.1f}" if found else "–"

    ways = sorted({(accuracy.contestant_of(r["job"]), r["job"]["variant"]) for r in records})
    rows = []
    for name, variant in ways:
        of_way = by_name(records, name, variant=variant)
        rows.append([name, variant, *(seconds(batch, of_way) for batch in batches)])
    busiest = max(record["load"] for record in records)
    return table(["", "way", *(f"batch {batch}" for batch in batches)], rows) + (
        f"\nThe load was up to {busiest:.1f} before a run.\n"
    )


def seconds_cell(seconds):
    return "–" if math.isinf(seconds) else f"{seconds:.1f}"


def final_table(records):
    """Every side's choices; ratios are of medians, against the quickest peer."""
    choices = accuracy.by_choice(records)
    medians = {choice: accuracy.median_seconds(runs) for choice, runs in choices.items()}
    peers = [
        medians[choice] for choice, runs in choices.items() if runs[0]["job"]["side"] != "crossbow"
    ]
    best = min(peers, default=math.inf)
    rows = []
    for choice, runs in choices.items():
        name, batch, rate = choice
        runs = sorted(runs, key=lambda r: r["job"]["seed"])
        median = medians[choice]
        ratio = f"{best / median:.2f}×" if math.isfinite(best) and math.isfinite(median) else "–"
        rows.append(
            [
                name,
                runs[0]["job"]["variant"],
                str(batch),
                f"{rate:g}",
                epochs_cell(runs),
                ", ".join(seconds_cell(seconds_to_target(r)) for r in runs),
                f"**{seconds_cell(median)}**",
                ratio,
            ]
        )
    header = ["", "way", "batch", "rate", "epochs by seed", "seconds by seed", "median s"]
    return table([*header, "as quick as the best peer"], rows)


def accuracy_parts(records, task, target):
    parts = [f"## {task}: time to {target:.1%}\n"]
    stages = {
        stage: [r for r in records if r["job"]["stage"] == stage] for stage in accuracy.STAGES
    }
    if stages["final"]:
        parts += [final_table(stages["final"])]
    if stages["speed"]:
        parts += ["Seconds of training per epoch:\n", speed_table(stages["speed"])]
    if stages["tune"]:
        parts += ["Epochs to the target by rate, seed 1:\n", *tuning_tables(stages["tune"])]
    return parts


def algorithms_table(records, rate_of):
    """`rate_of(records of one k and algorithm)` picks the rate that the table shows."""
    cells = efficiency.by_algorithm_and_learners(records)
    learners = values(records, "learners")

    def cell(algorithm, k):
        of_cell = cells.get((algorithm, k), [])
        rate = rate_of(of_cell)
        of_rate = [r for r in of_cell if r["job"]["rate"] == rate]
        return f"{epochs_cell(of_rate)} at {rate:g}" if of_rate else "–"

    return table(
        ["", *(f"k = {k}" for k in learners)],
        [
            [algorithm, *(cell(algorithm, k) for k in learners)]
            for algorithm in sorted({algorithm for algorithm, _ in cells})
        ],
    )


def smallest_rate(records):
    return min((r["job"]["rate"] for r in records), default=None)


def settings_table(settings, efficiency_runs):
    """Each changed factor beside the defaults at the same rate."""
    columns = values(settings, "learners")
    rows = {}
    for record in settings:
        job = record["job"]
        name, value = job["options"][-2:]
        if name == "--alpha":
            value = f"{float(value) * job['learners']:g}/k"
        rows.setdefault(f"`{name} {value}`", {}).setdefault(job["learners"], []).append(record)
    rates = {record["job"]["learners"]: record["job"]["rate"] for record in settings}
    defaults = {
        k: [
            r
            for r in efficiency_runs
            if (efficiency.algorithm_of(r["job"]), r["job"]["learners"], r["job"]["rate"])
            == ("sma", k, rates[k])
        ]
        for k in columns
    }
    return table(
        ["", *(f"k = {k}, rate {rates[k]:g}" for k in columns)],
        [
            [name, *(epochs_cell(found.get(k, [])) for k in columns)]
            for name, found in [("defaults", defaults), *rows.items()]
        ],
    )


def efficiency_parts(records, task, target):
    runs = [r for r in records if r["job"]["stage"] == "efficiency"]
    settings = [r for r in records if r["job"]["stage"] == "settings"]
    alone = [r for r in runs if r["job"]["learners"] == 1]
    many = [r for r in runs if r["job"]["learners"] > 1]
    parts = [
        f"## {task}: epochs to {target:.1%} of k learners, batch {tasks.SMALLEST_BATCH} each\n"
    ]
    if alone:
        parts += [
            "One learner:\n",
            table(
                [f"rate {rate:g}" for rate in values(alone, "rate")],
                [
                    [
                        epochs_cell([r for r in alone if r["job"]["rate"] == rate])
                        for rate in values(alone, "rate")
                    ]
                ],
            ),
        ]
    if many:
        parts += [
            "At the rate that suits one learner best:\n",
            algorithms_table(many, smallest_rate),
            "At the best of the rates tried with seed 1:\n",
            algorithms_table(many, efficiency.best_rate),
        ]
    if settings:
        parts += ["`sma` with one setting changed:\n", settings_table(settings, runs)]
    return parts


def markdown(results):
    """(the page, plots by name)"""
    parts, pictures = ["# How quickly Crossbow learns\n"], {}
    records = list(results.lines.values())
    for task in tasks.TASKS:
        of_task = [r for r in records if r["job"]["task"] == task]
        for target in sorted({r["job"]["target"] for r in of_task if r["job"]["target"]}):
            title = f"{tasks.TASKS[task].model} on {task}"
            timed = [
                r
                for r in of_task
                if r["job"]["stage"] == "speed"
                or (r["job"]["stage"] in accuracy.STAGES and r["job"]["target"] == target)
            ]
            counted = [
                r
                for r in of_task
                if r["job"]["stage"] in ("efficiency", "settings") and r["job"]["target"] == target
            ]
            final = [r for r in timed if r["job"]["stage"] == "final"]
            if timed:
                parts += accuracy_parts(timed, task, target)
            if final:
                pictures[f"{task}-time"] = plots.accuracy_over_time(title, target, final)
            if counted:
                parts += efficiency_parts(counted, task, target)
                picture = plots.epochs_by_learners(title, target, counted)
                if picture:
                    pictures[f"{task}-efficiency"] = picture
    parts.append(
        "Epochs are whole ones. `>n (a %)`: not within n epochs, in which a was the best accuracy. "
        "Several values are seeds.\n"
    )
    return "\n".join(parts), pictures


def write(results, out):
    if not results.lines:
        raise SystemExit(f"{results.path}: no results yet")
    page, pictures = markdown(results)
    if not out:
        print(page)
        return
    for name, svg in pictures.items():
        path = out.with_name(f"{out.stem}-{name}.svg")
        path.write_text(svg, encoding="utf-8")
        page += f"\n![{name}]({path.name})\n"
    out.write_text(page, encoding="utf-8")
