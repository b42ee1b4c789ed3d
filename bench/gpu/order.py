"""What is measured, what matters most first, as the time may run out."""

from bench.gpu.jobs import Job
from bench.nets import NETS

MAIN = ("resnet-32", "lenet")
LEARNERS = [1, 8, 16, 32, 4, 2]
QUICK_LEARNERS = 4  # of those numbers
QUICK = [("pytorch", "eager"), ("pytorch", "captured")]
EXACT = [("pytorch", "eager nchw"), ("pytorch", "captured nchw")]  # of images in f32 alone
COMPILED = [("pytorch", "captured compile"), ("pytorch", "reduce")]
JIT, AUTOTUNE, COMPILE = ("jax", "jit nhwc"), ("pytorch", "autotune"), ("pytorch", "compile")
ALONE, TUNED = ("crossbow", "1"), ("crossbow", "auto")  # the latter tries up to 32 learners
SLOW = [*COMPILED, JIT, AUTOTUNE, COMPILE, TUNED]
SIDE_BY_SIDE = 12  # processes that compile


def side_of(job):
    return job.fields["side"], job.fields["variant"]


def makes_sense(job):
    fields = job.fields
    exact = fields["precision"] == "f32" and len(NETS[fields["model"]][0]) == 3
    return exact or side_of(job) not in EXACT


def order(args, is_open):
    """Lists of jobs that are prepared side by side and then measured one after the other."""
    crossbow = [("crossbow", str(k)) for k in args.learners]

    def cases(models, batch):
        pairs = [(p, m) for p in args.precisions for m in models]
        return [{"model": m, "batch": batch, "precision": p} for p, m in pairs]

    def groups(part, sides, size=1):
        keys = [{**case, "side": s, "variant": v} for case in part for s, v in sides]
        jobs = [job for job in (Job("speed", k) for k in keys) if makes_sense(job) and is_open(job)]
        return [jobs[i : i + size] for i in range(0, len(jobs), size)]

    def quick(part):
        return groups(part, crossbow[:QUICK_LEARNERS] + QUICK)

    def slow(part):
        return [
            *groups(part, COMPILED, SIDE_BY_SIDE),
            *groups(part, EXACT),
            *groups(part, [JIT], SIDE_BY_SIDE),
            *groups(part, crossbow[QUICK_LEARNERS:]),
            *groups(part, [TUNED]),
            *groups(part, [AUTOTUNE]),  # its trials are timed
            *groups(part, [COMPILE], SIDE_BY_SIDE),
        ]

    first, *batches = args.batches
    main = [m for m in args.models if m in MAIN]
    others = [m for m in args.models if m not in MAIN]
    start = cases(main, first)
    rest = [cases(others, first), *(cases(args.models, batch) for batch in batches)]
    # One learner that has the batches of k; those of args.batches come with the rest.
    wide = {first * k for k in args.learners} - set(args.batches)
    alone = [group for batch in sorted(wide) for group in groups(cases(main, batch), [ALONE])]
    parts = [quick(start), slow(start), alone, *map(quick, rest), *map(slow, rest)]
    return [group for part in parts for group in part]
