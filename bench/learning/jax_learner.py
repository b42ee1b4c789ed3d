"""Trains lenet on MNIST with JAX; see learner.py. A step is one jit with donated buffers."""

import jax
import jax.numpy as jnp
import numpy as np

from bench import data, jax_net
from bench.learning import learner


def read(folder, split):
    images, labels = data.read_mnist(folder, split)
    return (images / np.float32(255))[..., None], labels.astype(np.int32)


def main():
    args = learner.parser(__doc__, ["lenet"], ["gather outside", "gather inside"]).parse_args()
    (images, labels), (test_images, test_labels) = read(args.data, "train"), read(args.data, "test")
    random = np.random.default_rng(args.seed)
    net = jax_net.Net(args.model, "NHWC")
    state = jax_net.initial_state(net, jnp.asarray(images[: args.batch]), args.seed)
    step = jax_net.make_step(net, args.lr)
    inside = args.variant == "gather inside"
    if inside:
        images, labels, on_batch = jnp.asarray(images), jnp.asarray(labels), step
        step = jax.jit(
            lambda *state, picked: on_batch(*state, images[picked], labels[picked]),
            donate_argnums=(0, 1, 2, 3),
        )

    def batch(picked):
        return {"picked": picked} if inside else {"x": images[picked], "y": labels[picked]}

    for n in {args.batch, len(labels) % args.batch or args.batch}:  # compiles on a copy
        jax.block_until_ready(step(*jax.tree.map(jnp.copy, state), **batch(np.arange(n))))

    def train_epoch():
        order, losses, sizes = random.permutation(len(labels)), [], []
        for start in range(0, len(order), args.batch):
            picked = order[start : start + args.batch]
            *state[:], loss = step(*state, **batch(picked))
            losses.append(loss)
            sizes.append(len(picked))
        return float(np.dot(jax.device_get(losses), sizes) / len(order))

    evaluated = jax_net.Net(args.model, "NHWC", evaluated=True)
    answers = jax.jit(lambda parameters, x: evaluated(x, parameters, [], None)[0].argmax(1))

    def accuracy():
        parts = [slice(start, start + 500) for start in range(0, len(test_labels), 500)]
        right = (np.asarray(answers(state[0], test_images[p])) == test_labels[p] for p in parts)
        return int(sum(r.sum() for r in right)) / len(test_labels)

    learner.learn(args, train_epoch, accuracy)


if __name__ == "__main__":
    main()
