"""JAX's training step on a GPU; see bench/peers/peer.py. Batches lie in the GPU's memory."""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others are on the GPU too
import jax

from bench.peers import jax_peer
from bench.peers.peer import serve


def prepare(args):
    """By default JAX rounds the operands of f32's products."""
    exact = "highest" if args.precision == "f32" else "tensorfloat32"
    jax.config.update("jax_default_matmul_precision", exact)
    return jax_peer.prepare(args)


if __name__ == "__main__":
    serve(prepare)
