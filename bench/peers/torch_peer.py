"""PyTorch's training step; see common.py."""

import torch
from torch.nn import functional as F

import common
import torch_nets


def make_optimizer(net, kind):
    return torch.optim.SGD(
        net.parameters(),
        lr=common.LEARNING_RATE,
        momentum=common.MOMENTUM,
        weight_decay=common.WEIGHT_DECAY,
        **{kind: True}
    )


def prepare_matmul(precision):
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    a, b = torch.randn(2, common.MATMUL_SIZE, common.MATMUL_SIZE, dtype=dtype)
    c = torch.empty_like(a)
    return torch.__version__, 0, lambda _: torch.mm(a, b, out=c), lambda: float(c[0, 0])


def prepare(args):
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    if args.model == "matmul":
        return prepare_matmul(args.precision)
    shape, classes, _ = common.NETS[args.model]
    net = torch_nets.build(args.model).train()
    images = [torch.randn(args.batch, *shape) for _ in range(common.BATCHES_IN_MEMORY)]
    labels = [torch.randint(classes, (args.batch,)) for _ in range(common.BATCHES_IN_MEMORY)]
    if "nhwc" in args.variant and len(shape) == 3:
        net = net.to(memory_format=torch.channels_last)
        images = [x.contiguous(memory_format=torch.channels_last) for x in images]
    optimizer = make_optimizer(net, "foreach" if "foreach" in args.variant else "fused")
    bf16 = args.precision == "bf16"

    def loss_of(x, y):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
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

    return torch.__version__, torch_nets.count_parameters(net), step, lambda: last.item()


if __name__ == "__main__":
    common.serve(common.VARIANTS["pytorch"], prepare)
