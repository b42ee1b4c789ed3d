"""PyTorch's training step; see peer.py."""

import torch
from torch.nn import functional as F

from bench import nets, torch_nets
from bench.peers.peer import BATCHES_IN_MEMORY, MATMUL_SIZE, serve


def prepare_matmul(args):
    dtype = torch.bfloat16 if args.precision == "bf16" else torch.float32
    a, b = torch.randn(2, MATMUL_SIZE, MATMUL_SIZE, dtype=dtype)
    c = torch.empty_like(a)
    return lambda _: torch.mm(a, b, out=c), lambda: float(c[0, 0])


def prepare(args):
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    if args.model == "matmul":
        return prepare_matmul(args)
    shape, classes, _ = nets.NETS[args.model]
    net = torch_nets.build(args.model).train()
    images = [torch.randn(args.batch, *shape) for _ in range(BATCHES_IN_MEMORY)]
    labels = [torch.randint(classes, (args.batch,)) for _ in range(BATCHES_IN_MEMORY)]
    if "nhwc" in args.variant and len(shape) == 3:
        net, images = torch_nets.channels_last(net, images)
    how = "foreach" if "foreach" in args.variant else "fused"
    optimizer = torch_nets.sgd(net, **{how: True})

    def loss_of(x, y):
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
            return F.cross_entropy(net(x), y)

    if "compile" in args.variant:
        loss_of = torch.compile(loss_of)
    last = None

    def step(batch):
        nonlocal last
        optimizer.zero_grad(set_to_none=True)
        last = loss_of(images[batch], labels[batch])
        last.backward()
        optimizer.step()

    return step, lambda: last.item()


if __name__ == "__main__":
    serve(prepare)
