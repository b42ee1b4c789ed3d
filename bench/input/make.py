"""Pictures of ImageNet's kind for `bench.input`: class folders of JPEGs.

    python3 -m bench.input.make FROM TO [--count 20000]
    python3 -m bench.input.make FROM TO --mixed

FROM is an image folder of small pictures, such as CIFAR-10's. Each is enlarged to 500 x 375 pixels,
or to 375 x 500, and gets noise of several octaves, so that it takes as long to decode as a
photograph: 105 kB on average. As in ImageNet, a few are grey, a few progressive, a few CMYK, and one
is a PNG by the name of .JPEG.

`crossbow convert` makes TFRecords and tars of them, and `bench.input.scale` links their shards many
times.

With --mixed all pictures are written, for `bench.learning pictures`: without noise, enlarged to sides
of 48 to 128 pixels each.
"""

import argparse
import io
import pathlib

import numpy as np
from PIL import Image

OCTAVES = (2, 4, 8, 16, 64)  # pixels
STRENGTH = 10.5  # of each octave's noise, standard deviation
QUALITY = 92
MIXED_SIDES = (48, 128)


def noisy(picture, random):
    """The picture enlarged, with noise at each octave."""
    wide = random.random() < 0.75
    width, height = (500, 375) if wide else (375, 500)
    pixels = np.asarray(picture.resize((width, height), Image.BICUBIC), np.float32).copy()
    pixels += random.standard_normal((height, width, 1), np.float32) * STRENGTH
    for octave in OCTAVES:
        size = (-(-height // octave), -(-width // octave), 3)
        field = (random.standard_normal(size, np.float32) * STRENGTH).clip(-127, 127)
        image = Image.fromarray((field + 128).astype(np.uint8))
        pixels += np.asarray(image.resize((width, height), Image.BICUBIC), np.float32) - 128
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def mixed(picture, random):
    """The picture at a size of its own."""
    return picture.resize(tuple(random.integers(*MIXED_SIDES, 2, endpoint=True)), Image.BICUBIC)


def encoded(picture, number):
    """The bytes of a file: every 50th is grey, every 100th progressive, every 500th CMYK."""
    options = {"quality": QUALITY}
    if number % 50 == 7:
        picture = picture.convert("L")
    if number % 100 == 13:
        options["progressive"] = True
    if number % 500 == 21:
        picture = picture.convert("CMYK")
    out = io.BytesIO()
    if number == 42:
        picture.save(out, "PNG")
    else:
        picture.save(out, "JPEG", **options)
    return out.getvalue()


def make(source, target, count, part, change, seed):
    """`count`: 0 for each picture once."""
    paths = sorted(source.glob("*/*"))
    count = count or len(paths)
    random = np.random.default_rng(seed)
    total = 0
    for number in range(count):
        path = paths[number * len(paths) // count]
        with Image.open(path) as picture:
            data = encoded(change(picture.convert("RGB"), random), number)
        folder = target / part / path.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{part}_{number:08}.JPEG").write_bytes(data)
        total += len(data)
    print(f"{part}: {count} pictures, {total / count / 1000:.1f} kB each")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", metavar="FROM", type=pathlib.Path)
    parser.add_argument("target", metavar="TO", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=20000, help="training pictures [20000]")
    parser.add_argument("--mixed", action="store_true", help="all of them, small, of mixed sizes")
    args = parser.parse_args()
    train, test = (0, 0) if args.mixed else (args.count, max(100, args.count // 20))
    change = mixed if args.mixed else noisy
    make(args.source / "train", args.target, train, "train", change, seed=1)
    make(args.source / "test", args.target, test, "val", change, seed=2)


if __name__ == "__main__":
    main()
