"""JAX's training step on a GPU; see bench/peers/peer.py. Batches lie in the GPU's memory."""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others are on the GPU too
import jax
import jax.numpy as jnp

from bench import jax_net
from bench.peers import jax_peer
from bench.peers.peer import serve


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
    return jax_peer.prepare(args, Bf16Net if args.precision == "bf16" else jax_net.Net)


if __name__ == "__main__":
    serve(prepare)
