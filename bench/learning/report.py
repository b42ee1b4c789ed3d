"""The results as Markdown tables, with plots beside them."""

import math
import statistics

from bench import table
from bench.learning import accuracy, defaults, efficiency, large, plots, tasks
from bench.learning.results import best_accuracy, epochs_to_target, final_accuracy, group
from bench.learning.results import seconds_to_target, select

FOOTNOTE = (
    "Epochs are whole ones. `>n (a %)`: not within n epochs, in which a was the best accuracy. "
    "Several values are seeds.\n"
)


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


def of_name(records, name):
    return [record for record in records if accuracy.contestant_of(record["job"]) == name]


def tuning_tables(records):
    for batch in values(records, "batch"):
        of_batch = select(records, batch=batch)
        rates, rows = values(of_batch, "rate"), []
        for contestant in accuracy.CONTESTANTS.values():
            if runs := of_name(of_batch, contestant.name):
                cells = (epochs_cell(select(runs, rate=rate)) for rate in rates)
                rows.append([contestant.name, *cells])
        yield f"Batch {batch}:\n"
        yield table(["", *(f"rate {rate:g}" for rate in rates)], rows)


def speed_table(records):
    batches = values(records, "batch")

    def seconds(name, variant, batch):
        found = select(of_name(records, name), variant=variant, batch=batch)
        return f"{found[-1]['history'][-1]['seconds']:.1f}" if found else "–"

    ways = sorted({(accuracy.contestant_of(r["job"]), r["job"]["variant"]) for r in records})
    rows = [[*way, *(seconds(*way, batch) for batch in batches)] for way in ways]
    page = table(["", "way", *(f"batch {batch}" for batch in batches)], rows)
    busiest = max(record["load"] for record in records)
    return f"{page}\nThe load was up to {busiest:.1f} before a run.\n"


def seconds_cell(seconds):
    return "–" if math.isinf(seconds) else f"{seconds:.1f}"


def final_table(records):
    """Every side's choices; ratios are of medians, against the quickest peer."""
    choices = accuracy.by_choice(records)
    medians = {choice: accuracy.median_seconds(runs) for choice, runs in choices.items()}
    peers = [medians[c] for c, runs in choices.items() if runs[0]["job"]["side"] != "crossbow"]
    best = min(peers, default=math.inf)
    rows = []
    for (name, batch, rate), runs in choices.items():
        runs = sorted(runs, key=lambda r: r["job"]["seed"])
        median = medians[name, batch, rate]
        comparable = math.isfinite(best) and math.isfinite(median)
        rows.append(
            [
                *(name, runs[0]["job"]["variant"], batch, f"{rate:g}", epochs_cell(runs)),
                ", ".join(seconds_cell(seconds_to_target(r)) for r in runs),
                f"**{seconds_cell(median)}**",
                f"{best / median:.2f}×" if comparable else "–",
            ]
        )
    header = ["", "way", "batch", "rate", "epochs by seed", "seconds by seed", "median s"]
    return table([*header, "as quick as the best peer"], rows)


def accuracy_parts(records, task, target):
    parts = [f"## {task}: time to {target:.1%}\n"]
    final, speed, tune = (select(records, stage=stage) for stage in ("final", "speed", "tune"))
    if final:
        parts += [final_table(final)]
    if speed:
        parts += ["Seconds of training per epoch:\n", speed_table(speed)]
    if tune:
        parts += ["Epochs to the target by rate, seed 1:\n", *tuning_tables(tune)]
    return parts


def algorithms_table(records, rate_of):
    """`rate_of(records of one k and algorithm)` picks the rate that the table shows."""
    cells, learners = efficiency.at_rates(records, rate_of), values(records, "learners")

    def cell(algorithm, k):
        runs = cells.get((algorithm, k))
        return f"{epochs_cell(runs)} at {runs[0]['job']['rate']:g}" if runs else "–"

    names = sorted({algorithm for algorithm, _ in cells})
    rows = [[algorithm, *(cell(algorithm, k) for k in learners)] for algorithm in names]
    return table(["", *(f"k = {k}" for k in learners)], rows)


def smallest_rate(records):
    return min(r["job"]["rate"] for r in records)


def efficiency_parts(runs, task, target):
    alone = select(runs, learners=1)
    many = [r for r in runs if r["job"]["learners"] > 1]
    about = f"epochs to {target:.1%} of k learners, batch {tasks.SMALLEST_BATCH} each"
    parts = [f"## {task}: {about}\n"]
    if alone:
        rates = values(alone, "rate")
        cells = [epochs_cell(select(alone, rate=rate)) for rate in rates]
        parts += ["One learner:\n", table([f"rate {rate:g}" for rate in rates], [cells])]
    if many:
        parts += ["At the rate that suits one learner best:\n"]
        parts += [algorithms_table(many, smallest_rate)]
        parts += ["At the best of the rates tried with seed 1:\n"]
        parts += [algorithms_table(many, efficiency.best_rate)]
    return parts


def defaults_parts(records, task, target):
    """Where the number of learners is all that differs, but for the options of a group."""

    def options(job):
        sync = [] if job["sync"] == defaults.SYNC else ["--sync", job["sync"]]
        return " ".join([*sync, *job["options"]])

    by_options = group(records, options)
    return sum((rule_parts(*item, task, target) for item in sorted(by_options.items())), [])


def rule_parts(options, records, task, target):

    def row(record):
        job = record["job"]
        accuracies = (f"{100 * epoch['test_accuracy']:.1f}" for epoch in record["history"])
        return [job["learners"], job["seed"], epochs_cell([record]), " ".join(accuracies)]

    by_learners = sorted(records, key=lambda r: (r["job"]["learners"], r["job"]["seed"]))
    learners = values(records, "learners")
    medians = []
    for k in learners:
        epochs = [epochs_to_target(record) for record in select(records, learners=k)]
        medians.append(f"{statistics.median(epochs):g} ({min(epochs):g} to {max(epochs):g})")
    return [
        f"## {task}: epochs to {target:.1%} of k learners {options or 'by default'}, batch 16 each\n",
        table([f"k = {k}" for k in learners], [medians]),
        table(["k", "seed", "epochs", "test accuracy by epoch, %"], map(row, by_learners)),
    ]


def choice_parts(records, task, target):
    """Fixed numbers of learners, and what the program chose."""
    medians, rows = {}, []
    by_learners = group(records, lambda job: str(job["learners"]))
    seeds = set.intersection(*({r["job"]["seed"] for r in runs} for runs in by_learners.values()))
    for learners, runs in sorted(by_learners.items()):
        runs = sorted(runs, key=lambda r: r["job"]["seed"])
        seconds = [seconds_to_target(record) for record in runs]
        common = [r for r in runs if r["job"]["seed"] in seeds] or runs
        medians[learners] = statistics.median(map(seconds_to_target, common))
        chosen = ", ".join(str(r["history"][-1].get("learners", learners)) for r in runs)
        cells = ", ".join(map(seconds_cell, seconds))
        median = seconds_cell(statistics.median(seconds))
        rows.append([learners, chosen, epochs_cell(runs), cells, median])
    best = min((m for learners, m in medians.items() if learners != "auto"), default=math.inf)
    page = table(["--learners", "at the end", "epochs by seed", "seconds by seed", "median s"], rows)
    if "auto" in medians and math.isfinite(best):
        share = medians["auto"] / best
        page += f"\nauto takes {share:.2f} times as long as the best fixed number, by the seeds of all.\n"
    return [f"## {task}: time to {target:.1%} by number of learners, batch 16 each\n", page]


def final_cell(accuracy):
    """Of one run, as final_accuracy gives it."""
    return f"{100 * accuracy:.2f}" if accuracy else "diverged"


def accuracy_cell(records):
    """Median (range) of the final accuracies."""
    if not records:
        return "–"
    found = [final_accuracy(record) for record in records]
    median, *ends = map(final_cell, (statistics.median(found), min(found), max(found)))
    return f"{median} ({' to '.join(ends)})" if len(found) > 1 else median


def large_parts(records, task):
    """Each way at the best of its rates, by k."""
    by_way = group(records, lambda job: (efficiency.algorithm_of(job), large.learners_of(job)))
    learners = sorted({k for _, k in by_way})

    def at_best(way, k):
        runs = by_way.get((way, k), [])
        return select(runs, rate=large.best_rate(runs))

    def best_cell(way, k):
        runs = at_best(way, k)
        rate = f" at {runs[0]['job']['rate']:g}" if runs else ""
        return accuracy_cell(runs) + rate

    def epochs_to(record):
        reached = (e["epoch"] for e in record["history"] if e["test_accuracy"] >= task.target)
        return next(reached, math.inf)

    def target_cell(way, k):
        runs = sorted(at_best(way, k), key=lambda r: r["job"]["seed"])
        epochs = map(epochs_to, runs)
        return ", ".join("–" if math.isinf(n) else str(n) for n in epochs) or "–"

    def page(cell):
        ways = [way for way in (*large.ALGORITHMS, *large.LARGE) if any(w == way for w, _ in by_way)]
        rows = [[way, *(cell(way, k) for k in learners)] for way in ways]
        return table(["", *(f"k = {k}" for k in learners)], rows)

    return [
        f"## {task.name}: k learners of batch 16, and one of batch 16·k, {task.large_epochs} epochs\n",
        "Test accuracy after the last, %: median (range) of the seeds at the best rate:\n",
        page(best_cell),
        f"Epochs to {task.target:.1%}, by seed:\n",
        page(target_cell),
    ]


def names_parts(records, task):
    """By algorithm and number of learners: the seeds' median (range)."""
    learners = values(records, "learners")
    rows = []
    for sync, runs in group(records, lambda job: job["sync"]).items():
        cells = [accuracy_cell(select(runs, learners=k)) for k in learners]
        rows.append([f"`{sync}`", *cells])
    about = "by --sync and --learners alone, %: median (range) of the seeds"
    return [
        f"## {task.name}: test accuracy after {task.epochs} epochs {about}\n",
        table(["", *(f"k = {k}" for k in learners)], rows),
    ]


def pictures_parts(records, task):
    """Each way with its seeds."""
    by_way = group(records, lambda job: " ".join([job["side"], *job["options"]]))
    rows = []
    for way, runs in sorted(by_way.items()):
        found = [100 * final_accuracy(r) for r in sorted(runs, key=lambda r: r["job"]["seed"])]
        rows.append([way, ", ".join(f"{a:.2f}" for a in found), f"{statistics.median(found):.2f}"])
    return [
        f"## {task.name}: test accuracy of {task.model} after {task.epochs} epochs, %\n",
        table(["", "by seed", "median"], rows),
    ]


def markdown(results):
    """(the page, plots by name)"""
    parts, pictures = ["# How quickly Crossbow learns\n"], {}
    for task in tasks.TASKS.values():
        of_task = select(results.lines.values(), task=task.name)
        title = f"{task.model} on {task.name}"
        by_rule = select(of_task, stage="defaults")  # whose rate follows from k
        if picture := plots.noise_by_epoch(title, by_rule):
            pictures[f"{task.name}-noise"] = picture
        if compared := select(of_task, stage="large"):
            parts += large_parts(compared, task)
        if by_name := select(of_task, stage="names"):
            parts += names_parts(by_name, task)
        if encoded := select(of_task, stage="pictures"):
            parts += pictures_parts(encoded, task)
        for target in sorted({r["job"]["target"] for r in of_task if r["job"]["target"]}):
            of_target = select(of_task, target=(target, None))  # speed has none
            timed = select(of_target, stage=tuple(accuracy.STAGES))
            counted = select(of_target, stage="efficiency")
            if by_default := select(of_target, stage="defaults"):
                parts += defaults_parts(by_default, task.name, target)
            if chosen := select(of_target, stage="choice"):
                parts += choice_parts(chosen, task.name, target)
            if timed:
                parts += accuracy_parts(timed, task.name, target)
            if final := select(timed, stage="final"):
                pictures[f"{task.name}-time"] = plots.accuracy_over_time(title, target, final)
            if counted:
                parts += efficiency_parts(counted, task.name, target)
                if picture := plots.epochs_by_learners(title, target, counted):
                    pictures[f"{task.name}-efficiency"] = picture
    return "\n".join([*parts, FOOTNOTE]), pictures


def write(results, out):
    if not results.lines:
        raise SystemExit(f"{results.path}: no results yet")
    page, pictures = markdown(results)
    if not out:
        print(page)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures.items():
        path = out.with_name(f"{out.stem}-{name}.svg")
        path.write_text(svg, encoding="utf-8")
        page += f"\n![{name}]({path.name})\n"
    out.write_text(page, encoding="utf-8")
