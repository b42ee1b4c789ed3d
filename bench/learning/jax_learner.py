"""JAX's learner of lenet on MNIST; see learner.py. A step is one jit with donated buffers."""

import jax
import jax.numpy as jnp
import numpy as np

import learner
import common
import jax_peer
import mnist


class EvaluatedNet(jax_peer.Net):
    def dropout(self, x, rate):
        return x


def read(folder, split):
    images, labels = mnist.read(folder, split)
    return (images / np.float32(255))[..., None], labels.astype(np.int32)


def main():
    args = learner.parse_arguments(__doc__, ["lenet"], ["gather outside", "gather inside"])
    common.LEARNING_RATE = args.lr  # what the step is compiled with
    (images, labels), (test_images, test_labels) = read(args.data, "train"), read(args.data, "test")
    random = np.random.default_rng(args.seed)
    net = jax_peer.Net(args.model, "NHWC")
    net.random = np.random.default_rng(args.seed)
    key = jax.random.key(args.seed, impl="rbg")  # quicker for dropout than the default
    net(jnp.asarray(images[: args.batch]), None, None, key)
    common.check_parameters(args.model, sum(w.size for w in net.parameters))
    state = [net.parameters, [jnp.zeros_like(w) for w in net.parameters], net.statistics, key]
    step = jax_peer.make_step(net)
    if args.variant == "gather inside":
        images, labels, on_batch = jnp.asarray(images), jnp.asarray(labels), step
        step = jax.jit(
            lambda *state, picked: on_batch(*state, images[picked], labels[picked]),
            donate_argnums=(0, 1, 2, 3),
        )

    def batch(picked):
        if args.variant == "gather inside":
            return {"picked": picked}
        return {"x": images[picked], "y": labels[picked]}

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

    evaluated = EvaluatedNet(args.model, "NHWC")
    answers = jax.jit(lambda parameters, x: evaluated(x, parameters, [], None)[0].argmax(1))

    def accuracy():
        right = 0
        for start in range(0, len(test_labels), 500):
            part = slice(start, start + 500)
            right += int(
                (np.asarray(answers(state[0], test_images[part])) == test_labels[part]).sum()
            )
        return right / len(test_labels)

    learner.learn(args, train_epoch, accuracy)


if __name__ == "__main__":
    main()
