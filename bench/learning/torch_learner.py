"""Trains lenet on MNIST, or a resnet on images of CIFAR-10 in a folder, with PyTorch.

The recipe is Crossbow's: Xavier-uniform weights by fan-in, zero biases, SGD with momentum 0.9 and
weight decay 1e-4 on all parameters. MNIST: pixels / 255. CIFAR-10: pixels / 127.5 - 1; training
images padded by 4 zeros, cropped back to 32x32 at random, and mirrored at random. All images are
tensors in memory. The last batch of an epoch may be smaller; nothing is dropped.
"""

import torch
from torch.nn import functional as F
from torch.optim import swa_utils

from bench import data, listed, nets, torch_nets
from bench.learning import learner

BN_IMAGES = 2048  # that measure the mean's batch norm, as `crossbow train` does


def read(args, split):
    if args.model == "lenet":
        images, labels = data.read_mnist(args.data, split)
        images = torch.from_numpy(images.copy())[:, None] / 255
    else:
        images, labels = data.read_image_folder(args.data, split)
        images = torch.from_numpy(images).permute(0, 3, 1, 2) / 127.5 - 1
    return images, torch.tensor(labels).long()


def augment(images, random):
    """Pads by 4, then crops and mirrors each image of the batch at random, all by one gather."""
    n, channels, height, width = images.shape
    top, left = torch.randint(9, (2, n, 1), generator=random)
    rows, columns = torch.arange(height) + top, torch.arange(width) + left
    mirror = torch.randint(2, (n, 1), generator=random).bool()
    columns = torch.where(mirror, columns.flip(1), columns)
    padded = F.pad(images, (4, 4, 4, 4)).permute(0, 2, 3, 1)
    picked = padded[torch.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return picked.permute(0, 3, 1, 2)  # channels last in memory, as the net wants them


class MeanOverTime:
    """The mean of the weights after every `period`th step. The later ones count for more, by
    polynomial decay with exponent `eta`, as in --sync polyak-ruppert of `crossbow train`."""

    def __init__(self, net, eta, period):
        def average(mean, weights, n):
            return mean.lerp(weights, (eta + 1) / (float(n) + 1 + eta))

        self.net, self.period, self.steps = net, period, 0
        self.model = swa_utils.AveragedModel(net, avg_fn=average)

    def stepped(self):
        self.steps += 1
        if self.steps % self.period == 0:
            self.model.update_parameters(self.net)

    def measure_batch_norm(self, images, batch, augmented):
        """Always on the same images, augmented in the same way."""
        random = torch.Generator().manual_seed(0)
        picked = torch.randperm(len(images), generator=random)[:BN_IMAGES].split(max(batch, 64))
        batches = (augment(images[p], random) if augmented else images[p] for p in picked)
        with torch.no_grad():
            swa_utils.update_bn(batches, self.model)


@torch.no_grad()
def accuracy(net, images, labels):
    net.eval()
    batches = zip(images.split(500), labels.split(500))
    right = sum((net(x).argmax(1) == y).sum().item() for x, y in batches)
    net.train()
    return right / len(labels)


def compile_for(net, images, batch):
    """Both shapes of an epoch's batches; the gradients are cleared before the first step. Running
    statistics see these two batches once more."""
    for n in {batch, len(images) % batch or batch}:
        x = images[:n].contiguous(memory_format=torch.channels_last)
        net(x).sum().backward()


def parse_arguments():
    models = ["lenet", "resnet-20", "resnet-32"]
    parser = learner.parser(__doc__, models, ["eager", "compile"])
    about = "epochs after which the rate is divided by 10"
    parser.add_argument("--lr-milestones", type=listed(int), default=[], metavar="E,E", help=about)
    about = "evaluate a mean over time with this exponent, taken every --sync-period steps"
    parser.add_argument("--averaging-eta", type=float, metavar="η", help=about)
    parser.add_argument("--sync-period", type=int, default=1, metavar="N")
    return parser.parse_args()


def main():
    args = parse_arguments()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    random = torch.Generator().manual_seed(args.seed)
    (images, labels), test = read(args, "train"), read(args, "test")
    net = torch_nets.build(args.model).to(memory_format=torch.channels_last)
    options = {"weight_decay": nets.WEIGHT_DECAY, "fused": True}
    optimizer = torch.optim.SGD(net.parameters(), args.lr, nets.MOMENTUM, **options)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, args.lr_milestones)
    trained, augmented = net, args.model != "lenet"
    if args.variant == "compile":
        trained = torch.compile(net, dynamic=False)
        compile_for(trained, images, args.batch)
    mean = None
    if args.averaging_eta is not None:
        mean = MeanOverTime(net, args.averaging_eta, args.sync_period)

    def train_epoch():
        total = 0.0
        for picked in torch.randperm(len(labels), generator=random).split(args.batch):
            x, y = images[picked], labels[picked]
            if augmented:
                x = augment(x, random)
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(trained(x.contiguous(memory_format=torch.channels_last)), y)
            loss.backward()
            optimizer.step()
            if mean:
                mean.stepped()
            total += loss.item() * len(y)
        schedule.step()
        if mean:
            mean.measure_batch_norm(images, args.batch, augmented)
        return total / len(labels)

    learner.learn(args, train_epoch, lambda: accuracy(mean.model if mean else net, *test))


if __name__ == "__main__":
    main()
