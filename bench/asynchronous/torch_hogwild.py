"""Hogwild in PyTorch: processes that change one net in shared memory, without locks, by plain SGD.

Prints the images/s of all processes together, as JSON. To be run with OMP_NUM_THREADS=1.
"""

import argparse
import json
import os
import sys

import torch
from torch import multiprocessing
from torch.nn import functional as F

from bench import listed, nets, torch_nets
from bench.peers.peer import BATCHES_IN_MEMORY, Trainer

START_LIMIT = 60  # seconds until all processes must be warm


def train(net, args, number, start, speeds):
    """One of the processes."""
    os.sched_setaffinity(0, [args.cpus[number]])
    torch.set_num_threads(1)
    torch.manual_seed(1 + number)
    shape, classes, _ = nets.NETS[args.model]
    images = [torch.randn(args.batch, *shape) for _ in range(BATCHES_IN_MEMORY)]
    labels = [torch.randint(classes, (args.batch,)) for _ in range(BATCHES_IN_MEMORY)]
    optimizer = torch.optim.SGD(net.parameters(), lr=nets.LEARNING_RATE)  # fused is slower here
    last = None

    def step(batch):
        nonlocal last
        optimizer.zero_grad(set_to_none=True)
        last = F.cross_entropy(net(images[batch]), labels[batch])
        last.backward()
        optimizer.step()

    trainer = Trainer(args.batch, step, lambda: last.item())
    trainer.train(1.0)  # warms up
    start.wait(START_LIMIT)
    speeds.put(trainer.train(args.seconds))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--model", default="mlp", choices=nets.NETS)
    add("--batch", type=int, default=16)
    add("--cpus", type=listed(int), default=[0, 1], metavar="N,N", help="one for each process")
    add("--seconds", type=float, default=5)
    return parser.parse_args()


def main():
    args = parse_arguments()
    torch.manual_seed(1)
    net = torch_nets.build(args.model).train()
    net.share_memory()
    before = torch.nn.utils.parameters_to_vector(net.parameters()).detach().clone()
    processes = multiprocessing.get_context("spawn")
    start, speeds = processes.Barrier(len(args.cpus)), processes.SimpleQueue()
    workers = [
        processes.Process(target=train, args=(net, args, number, start, speeds), daemon=True)
        for number in range(len(args.cpus))
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        sys.exit("a process failed, as said above")
    if torch.equal(before, torch.nn.utils.parameters_to_vector(net.parameters())):
        sys.exit("the processes did not change the net of this one")
    print(json.dumps({"images_per_second": sum(speeds.get() for _ in workers)}))


if __name__ == "__main__":
    main()
