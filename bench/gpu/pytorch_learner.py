"""Trains a resnet on CIFAR-10 with PyTorch on a GPU, in bf16 where autocast wants it.

The recipe is Crossbow's: Xavier-uniform weights by fan-in, SGD with momentum 0.9 and weight decay
1e-4 on all parameters, a rate that falls by a cosine from step to step, pixels / 127.5 - 1. Training
images are padded by 4 zeros, cropped back to 32x32 at random, and mirrored at random. All images
lie in the GPU's memory, and so does all that changes from step to step: a whole step, with its
crops, is one CUDA graph. What an epoch's last batch lacks is dropped. Without a GPU it runs on the
CPU, which only shows that it works.
"""

import copy
import math

import torch
from torch.nn import functional as F

from bench import data, nets, torch_nets
from bench.gpu.torch_graph import capture
from bench.learning import learner
from bench.learning.torch_learner import accuracy

PADDING = 4
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def read(folder, split):
    pixels, labels = data.read_cifar(folder, split)
    images = torch.from_numpy(pixels.copy()).to(DEVICE) / 127.5 - 1
    return images, torch.from_numpy(labels.copy()).long().to(DEVICE)


def autocast():
    return torch.autocast(DEVICE, torch.bfloat16)


def cropped(padded, picked, top, left, mirror):
    """Of images of (n, height, width, channels), channels last in memory. The corners are of
    (batch, 1), and whether an image is mirrored."""
    along = torch.arange(padded.shape[1] - 2 * PADDING, device=padded.device)
    rows, columns = along + top, along + left
    columns = torch.where(mirror, columns.flip(1), columns)
    return padded[picked[:, None, None], rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


class Trainer:
    """Its tensors keep their places, for the graph."""

    def __init__(self, args, images, labels):
        self.args, self.labels = args, labels
        border = (PADDING,) * 4
        self.padded = F.pad(images, border).permute(0, 2, 3, 1).contiguous()
        self.net = torch_nets.build(args.model).to(DEVICE, memory_format=torch.channels_last)
        self.steps = len(labels) // args.batch  # of an epoch
        self.order = torch.randperm(len(labels), device=DEVICE)
        self.rates = torch.zeros(args.epochs * self.steps, device=DEVICE)
        self.rate = torch.zeros((), device=DEVICE)
        self.step_number = torch.zeros(1, dtype=torch.long, device=DEVICE)
        self.losses = torch.zeros((), device=DEVICE)
        options = {"weight_decay": nets.WEIGHT_DECAY, "fused": True}
        parameters = self.net.parameters()
        self.optimizer = torch.optim.SGD(parameters, self.rate, nets.MOMENTUM, **options)
        self.loss_of = self.loss
        if "compile" in args.variant:
            self.loss_of = torch.compile(self.loss)

    def loss(self, picked, top, left, mirror):
        with autocast():
            x = cropped(self.padded, picked, top, left, mirror)
            return F.cross_entropy(self.net(x), self.labels[picked])

    def step(self):
        batch = self.args.batch
        lanes = torch.arange(batch, device=DEVICE)
        picked = self.order[self.step_number % self.steps * batch + lanes]
        top, left = torch.randint(2 * PADDING + 1, (2, batch, 1), device=DEVICE)
        mirror = torch.randint(2, (batch, 1), device=DEVICE).bool()
        self.rate.copy_(self.rates.index_select(0, self.step_number)[0])
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(picked, top, left, mirror)
        loss.backward()
        self.optimizer.step()
        self.losses += loss.detach()
        self.step_number += 1

    def prepare(self):
        """Returns what makes a step. As long as all rates are 0 no step changes a weight; what else
        it changes is put back."""
        before = copy.deepcopy(self.net.state_dict())
        run = self.step
        if "captured" in self.args.variant:
            run = capture(self.step)[0].replay
        else:
            run()
        self.net.load_state_dict(before)
        for state in self.optimizer.state.values():
            state["momentum_buffer"].zero_()
        self.step_number.zero_()
        total = len(self.rates)
        falling = [(1 + math.cos(math.pi * i / total)) / 2 for i in range(total)]
        self.rates.copy_(torch.tensor(falling) * self.args.lr)
        return run

    def train_epoch(self, run):
        """The mean loss, which waits for the GPU."""
        self.order.copy_(torch.randperm(len(self.labels), device=DEVICE))
        self.losses.zero_()
        for _ in range(self.steps):
            run()
        return self.losses.item() / self.steps


def main():
    variants = ["captured compile", "captured", "eager"]
    args = learner.parser(__doc__, ["resnet-20", "resnet-32"], variants).parse_args()
    torch.manual_seed(args.seed)
    torch.backends.cudnn.benchmark = True
    trainer = Trainer(args, *read(args.data, "train"))
    test = read(args.data, "test")
    run = trainer.prepare()

    def measure():
        with autocast():
            return accuracy(trainer.net, *test)

    measure()  # cuDNN chooses
    learner.learn(args, lambda: trainer.train_epoch(run), measure)


if __name__ == "__main__":
    main()
