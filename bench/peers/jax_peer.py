"""JAX's training step; see peer.py."""

import jax.numpy as jnp
import numpy as np

from bench import jax_net, nets
from bench.peers.peer import BATCHES_IN_MEMORY, serve


def prepare(args, make_net=jax_net.Net):
    layout = "NCHW" if "nchw" in args.variant else "NHWC"
    shape, classes = nets.shape(args.model, layout == "NHWC"), nets.NETS[args.model][1]
    random, n = np.random.default_rng(1), BATCHES_IN_MEMORY
    images = [random.standard_normal((args.batch, *shape), np.float32) for _ in range(n)]
    labels = [random.integers(classes, size=args.batch, dtype=np.int32) for _ in range(n)]
    images, labels = [jnp.asarray(x) for x in images], [jnp.asarray(y) for y in labels]
    net = make_net(args.model, layout)
    state, loss = jax_net.initial_state(net, images[0], seed=1), None
    train_step = jax_net.make_step(net, nets.LEARNING_RATE)

    def step(batch):
        nonlocal loss
        *state[:], loss = train_step(*state, images[batch], labels[batch])

    return step, lambda: float(loss)


if __name__ == "__main__":
    serve(prepare)
