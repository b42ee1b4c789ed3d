"""JAX's training step on a GPU; see bench/peers/peer.py. Batches lie in the GPU's memory."""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others are on the GPU too
import jax
import jax.numpy as jnp
import numpy as np

from bench import jax_net, nets
from bench.peers.peer import BATCHES_IN_MEMORY, serve


class Bf16Net(jax_net.Net):
    """Activations and the operands of products are bf16, as PyTorch's autocast has them;
    parameters, statistics and the loss are f32."""

    def logits(self, x):
        return super().logits(x.astype(jnp.bfloat16)).astype(jnp.float32)

    def weight(self, shape, fan_in):
        return super().weight(shape, fan_in).astype(jnp.bfloat16)

    def add_bias(self, x, bias):
        return super().add_bias(x, bias.astype(x.dtype))

    def batch_norm(self, x, *arguments):
        return super().batch_norm(x.astype(jnp.float32), *arguments).astype(x.dtype)


def prepare(args):
    """By default JAX rounds the operands of f32's products."""
    exact = "highest" if args.precision == "f32" else "tensorfloat32"
    jax.config.update("jax_default_matmul_precision", exact)
    shape, classes, n = nets.shape(args.model, True), nets.NETS[args.model][1], BATCHES_IN_MEMORY
    random = np.random.default_rng(1)
    images = [random.standard_normal((args.batch, *shape), np.float32) for _ in range(n)]
    labels = [random.integers(classes, size=args.batch, dtype=np.int32) for _ in range(n)]
    images, labels = [jnp.asarray(x) for x in images], [jnp.asarray(y) for y in labels]
    net = (Bf16Net if args.precision == "bf16" else jax_net.Net)(args.model, "NHWC")
    state, loss = jax_net.initial_state(net, images[0], seed=1), None
    train_step = jax_net.make_step(net, nets.LEARNING_RATE)

    def step(batch):
        nonlocal loss
        *state[:], loss = train_step(*state, images[batch], labels[batch])

    return step, lambda: float(loss)


if __name__ == "__main__":
    serve(prepare)
