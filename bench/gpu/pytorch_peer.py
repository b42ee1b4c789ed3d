"""PyTorch's training step on a GPU; see bench/peers/peer.py. Batches lie in the GPU's memory.

A variant is a way to run the step, and for exact f32 the layout: "captured nchw"."""

import os

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")  # others compile too
import torch
import torch._dynamo  # what makes an optimizer imports it
from torch.nn import functional as F

from bench import nets, torch_nets
from bench.gpu.torch_graph import capture
from bench.peers.peer import BATCHES_IN_MEMORY, serve

COMPILED = {"compile": "default", "reduce": "reduce-overhead", "autotune": "max-autotune"}


def captured(step, images, labels):
    """The whole step as one CUDA graph, whose batch is copied into place."""
    x, y = images[0].clone(), labels[0].clone()
    graph, loss = capture(lambda: step(x, y))

    def replay(batch):
        x.copy_(images[batch])
        y.copy_(labels[batch])
        graph.replay()

    return replay, lambda: float(loss)


def prepare(args):
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = args.precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = args.precision == "tf32"
    shape, classes, _ = nets.NETS[args.model]
    net = torch_nets.build(args.model).train().cuda()
    n = BATCHES_IN_MEMORY
    images = [torch.randn(args.batch, *shape, device="cuda") for _ in range(n)]
    labels = [torch.randint(classes, (args.batch,), device="cuda") for _ in range(n)]
    if len(shape) == 3 and "nchw" not in args.variant:
        net, images = torch_nets.channels_last(net, images)
    optimizer = torch_nets.sgd(net, fused=True)

    def loss_of(x, y):
        with torch.autocast("cuda", torch.bfloat16, enabled=args.precision == "bf16"):
            return F.cross_entropy(net(x), y)

    for word in args.variant.split():
        if word in COMPILED:
            loss_of = torch.compile(loss_of, mode=COMPILED[word])

    def step(x, y):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if "captured" in args.variant:
        return captured(step, images, labels)
    last = None

    def step_of(batch):
        nonlocal last
        last = step(images[batch], labels[batch])

    return step_of, lambda: last.item()


if __name__ == "__main__":
    serve(prepare)
