"""PyTorch's DataLoader on an image folder: pictures a second, as JSON lines on standard output.

    python -m bench.input.torch_input FOLDER WAY WORKERS PICTURES

WAY is pillow (torchvision's ImageFolder and its transforms) or tensor (decode_image and transforms v2).
"""

import json
import sys
import time

import torch
import torchvision
from torchvision import datasets, transforms
from torchvision.transforms import v2

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BATCH = 16


def pillow(folder):
    return datasets.ImageFolder(
        folder,
        transforms.Compose(
            [
                transforms.RandomResizedCrop(224),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(MEAN, DEVIATION),
            ]
        ),
    )


def decoded(path):
    data = torchvision.io.read_file(path)
    return torchvision.io.decode_image(data, torchvision.io.ImageReadMode.RGB)


def tensor(folder):
    return datasets.ImageFolder(
        folder,
        v2.Compose(
            [
                v2.RandomResizedCrop(224, antialias=True),
                v2.RandomHorizontalFlip(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize(MEAN, DEVIATION),
            ]
        ),
        loader=decoded,
    )


def main():
    folder, way, workers, pictures = sys.argv[1:]
    torch.set_num_threads(1)
    data = {"pillow": pillow, "tensor": tensor}[way](folder)
    order = torch.utils.data.RandomSampler(data, num_samples=int(pictures))
    loader = torch.utils.data.DataLoader(
        data, BATCH, sampler=order, num_workers=int(workers), persistent_workers=int(workers) > 0
    )
    for _ in range(3):  # the first starts the workers
        begin = time.perf_counter()
        seen = sum(len(labels) for _, labels in loader)
        seconds = time.perf_counter() - begin
        print(json.dumps({"pictures_per_second": seen / seconds}), flush=True)


if __name__ == "__main__":
    main()
