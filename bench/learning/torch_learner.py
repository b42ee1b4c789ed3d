"""PyTorch's learner; see learner.py. All images are tensors in memory."""

import torch

import learner
import common
import learn_torch
import mnist
import torch_nets


def read(args, split):
    if args.model == "lenet":
        images, labels = mnist.read(args.data, split)
        return torch.from_numpy(images.copy())[:, None] / 255, torch.tensor(labels).long()
    return learn_torch.read_image_folder(args.data, split)


def main():
    args = learner.parse_arguments(__doc__, ["lenet", "resnet-20"], ["eager", "compile"])
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    random = torch.Generator().manual_seed(args.seed)
    (images, labels), test = read(args, "train"), read(args, "test")
    net = torch_nets.build(args.model).to(memory_format=torch.channels_last)
    common.check_parameters(args.model, torch_nets.count_parameters(net))
    optimizer = torch.optim.SGD(
        net.parameters(),
        args.lr,
        common.MOMENTUM,
        weight_decay=common.WEIGHT_DECAY,
        fused=True,
    )
    trained = net
    if args.variant == "compile":
        trained = torch.compile(net, dynamic=False)
        compile_for(trained, images, args.batch)

    def train_epoch():
        augmented = args.model != "lenet"
        return learn_torch.train_epoch(
            trained, optimizer, images, labels, args.batch, random, augmented
        )

    learner.learn(args, train_epoch, lambda: learn_torch.accuracy(net, *test))


def compile_for(net, images, batch):
    """Both shapes of an epoch's batches; the gradients are cleared before the first step. Running
    statistics see these two batches once more."""
    for n in {batch, len(images) % batch or batch}:
        x = images[:n].contiguous(memory_format=torch.channels_last)
        net(x).sum().backward()


if __name__ == "__main__":
    main()
