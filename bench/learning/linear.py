"""What the noise scale says of k learners where all can be computed: on a quadratic loss.

Direction i of 60 has the curvature h = 1/i and gradients whose variance, of one image, is `noise`·h; weights start at 1.
k learners of batch 16 go on from their mean after every step of SGD with momentum, at k times one learner's rate; the mean
over time is evaluated: `sma` by default. Expectations of squares and products of weights x, momentum v and the mean m
follow from each other exactly, so nothing is drawn at random.
"""

import dataclasses
import math

from bench import table
from bench.learning import tasks

DIRECTIONS, BATCH, MOMENTUM, ETA = 60, tasks.SMALLEST_BATCH, 0.9, 8
NOISES, TARGET = (3, 30, 300), 0.05  # TARGET: the loss that is left
LEARNERS = (2, 4, 8, 16, 32, 64)
MOST_STEPS = 20_000


@dataclasses.dataclass
class Direction:
    curvature: float
    noise: float  # of the gradient of one image
    xx: float = 1.0
    xv: float = 0.0
    vv: float = 0.0
    mm: float = 1.0
    mx: float = 1.0
    mv: float = 0.0

    def step(self, rate, images, weight):
        """By a gradient of so many images; the new x has this weight in the mean."""
        h = self.curvature
        vv = MOMENTUM**2 * self.vv + h * h * self.xx + 2 * MOMENTUM * h * self.xv + self.noise / images
        xv = MOMENTUM * self.xv + h * self.xx
        mv = MOMENTUM * self.mv + h * self.mx
        mx = self.mx - rate * mv
        self.xx += rate * rate * vv - 2 * rate * xv
        self.xv, self.vv = xv - rate * vv, vv
        self.mm = (1 - weight) ** 2 * self.mm + 2 * weight * (1 - weight) * mx + weight**2 * self.xx
        self.mx = (1 - weight) * mx + weight * self.xx
        self.mv = (1 - weight) * mv + weight * self.xv


@dataclasses.dataclass
class Outcome:
    images: float  # until the target
    by_gradients: float  # the noise scale half way there
    by_momenta: float


def train(noise, k, rate, most_images=math.inf):
    directions = [Direction(1 / i, noise / i) for i in range(1, DIRECTIONS + 1)]
    batch, total_noise = k * BATCH, sum(d.noise for d in directions)
    target = TARGET * sum(d.curvature for d in directions)
    scales = []
    while len(scales) < MOST_STEPS and len(scales) * batch < most_images:
        by_gradients = total_noise / sum(d.curvature**2 * d.xx for d in directions)
        weight = min(1, (ETA + 1) / (len(scales) + 1 + ETA))
        for d in directions:
            d.step(rate, batch, weight)
        # Of the learners' momenta, as NoiseScale::add takes it: their mean's square without their noise's share.
        signal = sum(d.vv - d.noise / batch / (1 - MOMENTUM**2) for d in directions) * (1 - MOMENTUM) ** 2
        scales.append((by_gradients, total_noise / signal if signal > 0 else math.inf))
        loss = sum(d.curvature * d.mm for d in directions)
        if loss <= target:
            return Outcome(len(scales) * batch, *scales[len(scales) // 2])
        if loss > 1e6:
            break
    return Outcome(math.inf, *scales[len(scales) // 2])


def best_of_one(noise):
    """The rate with the fewest images, and what came of it."""
    best, best_rate = Outcome(math.inf, 0, 0), 0
    for halvings in range(0, 24):
        rate = 2 ** (-halvings / 2)
        outcome = train(noise, 1, rate, best.images)
        if outcome.images < best.images:
            best, best_rate = outcome, rate
    return best, best_rate


def share(scale, k):
    return (scale + BATCH) / (scale + k * BATCH) if math.isfinite(scale) else 1


def report():
    about = "one learner's best rate, and its φ half way: by gradients, by momenta"
    rows = []
    for noise in NOISES:
        one, rate = best_of_one(noise)
        efficiencies = {
            "as it is": [one.images / train(noise, k, k * rate).images for k in LEARNERS],  # 0: unstable
            "by gradients": [share(one.by_gradients, k) for k in LEARNERS],
            "by momenta": [share(one.by_momenta, k) for k in LEARNERS],
        }
        found = f"{rate:.4f}: {one.by_gradients:,.0f}, {one.by_momenta:,.0f}"
        for name, values in efficiencies.items():
            rows.append([noise, found, name, *(f"{value:.2f}" if value else "–" for value in values)])
    return table(["noise", about, "efficiency of k learners", *LEARNERS], rows)
