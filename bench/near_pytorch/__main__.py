"""How near Crossbow's outputs, gradients and losses are to PyTorch's in double precision, beside
those of PyTorch in f32. Nets are torchvision's, or written as those are (nets.py), with random
weights; there is no dropout, and batch norm is that of training, but for `outputs`, where it has
random running statistics. Needs PyTorch and torchvision, and the program net_step:

    cmake --preset release -DCROSSBOW_BENCHMARKS=ON && cmake --build --preset release --target net_step
    python3 -m bench.near_pytorch outputs
    python3 -m bench.near_pytorch gradients
    python3 -m bench.near_pytorch losses --model resnet-50 --batch 32 --side 96 --lr 0.01
    python3 -m bench.near_pytorch losses --zero-init --lr 0.00125

`exports` trains each net by `crossbow train` on a few pictures, exports it, and has torchvision's net load
the file strictly; `checkpoints` opens those of small runs by Python's safetensors and compares them with
what `crossbow export` writes of the same runs:

    python3 -m bench.near_pytorch exports --models resnet-18,vgg-11-imagenet
    python3 -m bench.near_pytorch checkpoints
"""

import pathlib
import subprocess
import tempfile

import numpy as np
import torch
from torch import nn

from bench import ROOT, listed, log, parser_of, table
from bench.near_pytorch.files import read_safetensors, write_safetensors
from bench.near_pytorch.nets import CLASSES, EXPORTED, NETS
from bench.near_pytorch.saved import load_exports, open_checkpoints

NET_STEP = ROOT / "build/release/net_step"


def made(net, seed, zero_init=False):
    """With scales and shifts that are not those of a new net, and epsilons as f32 has them; or a
    resnet whose residual branches add nothing."""
    torch.manual_seed(seed)
    module = net.make(**({"zero_init_residual": True} if zero_init else {})).train()
    for layer in module.modules():
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0
        if isinstance(layer, nn.BatchNorm2d):
            if not zero_init:
                nn.init.uniform_(layer.weight, 0.5, 1.5)
                nn.init.uniform_(layer.bias, -0.2, 0.2)
            layer.eps = float(np.float32(layer.eps))
    return module


def pictures(count, side, seed):
    """Smooth in places, as photographs are, and of mean 0 and deviation 1."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.zeros(count, 3, side, side)
    for grain in (side // 12, side // 4, side):
        noise = torch.randn(count, 3, grain, grain, generator=generator)
        images += nn.functional.interpolate(noise, side, mode="bilinear")
    images = (images - images.mean()) / images.std()
    return images, torch.randint(CLASSES, (count,), generator=generator)


def loss_of(module, net, images, labels):
    """Logits and what training minimises."""
    outputs = module(images)
    if not net.auxiliary:
        return outputs, nn.functional.cross_entropy(outputs, labels)
    # Of googlenet (logits, aux2, aux1), of inception-v3 (logits, aux).
    loss = nn.functional.cross_entropy(outputs[0], labels)
    for weight, logits in zip(net.auxiliary, outputs[1:]):
        loss = loss + weight * nn.functional.cross_entropy(logits, labels)
    return outputs[0], loss


def torch_gradients(module, net, images, labels):
    module.zero_grad()
    logits, loss = loss_of(module, net, images, labels)
    loss.backward()
    found = {"logits": logits.detach().double().numpy().ravel()}
    for name, parameter in module.named_parameters():
        found["gradient:" + name] = parameter.grad.double().numpy().ravel()
    return found


def error(actual, expected):
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


class Errors:
    """Relative errors of the norm: of outputs, of all gradients as one vector, and of the tensor of
    gradients that is worst, among those that are no rounding noise."""

    def __init__(self, actual, expected):
        names = [name for name in expected if name.startswith("gradient:")]
        whole = np.concatenate([expected[name] for name in names])
        noise = 1e-6 * np.linalg.norm(whole)
        self.outputs = error(actual["logits"], expected["logits"])
        self.gradients = error(np.concatenate([actual[name] for name in names]), whole)
        self.worst = max(error(actual[name], expected[name]) for name in names
                         if np.linalg.norm(expected[name]) > noise)

    def values(self):
        return [self.outputs, self.gradients, self.worst]


def state_of(module, images, labels):
    tensors = {name: t.numpy() for name, t in module.state_dict().items()
               if not name.endswith("num_batches_tracked")}
    return {**tensors, "images": images.numpy(), "labels": labels.float().numpy()}


def crossbow_values(what, net, folder, device, kind=""):
    """Outputs, or also gradients, and the convolutions' implementations."""
    call = [NET_STEP, what, net.name, device, folder / "in", folder / "out"]
    kernels = subprocess.run([*call, *([kind] if kind else [])], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    found = read_safetensors(folder / "out", np.float64)
    return {name: array.ravel() for name, array in found.items()}, kernels


def compare_gradients(net, batch, seed):
    """For each way to compute: what names it, and its errors."""
    module, (images, labels) = made(net, seed), pictures(batch, net.side, seed)
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        write_safetensors(folder / "in", state_of(module, images, labels))
        state = {name: t.clone() for name, t in module.state_dict().items()}
        single = torch_gradients(module, net, images, labels)
        module.load_state_dict(state)
        expected = torch_gradients(module.double(), net, images.double(), labels)
        ways = [("PyTorch, f32", single)]
        ways.append(("Crossbow, f32", crossbow_values("gradients", net, folder, "cpu")[0]))
        winograd, kernels = crossbow_values("gradients", net, folder, "cpu", "wino")
        if "wino" in kernels:
            ways.append(("Crossbow, f32, Winograd", winograd))
        if net.reference:
            reference = crossbow_values("gradients", net, folder, "ref")[0]
            ways.append(("Crossbow's reference, f64", reference))
        return [([net.name, net.side, way], Errors(found, expected).values()) for way, found in ways]


def with_random_statistics(module):
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.running_mean, -0.2, 0.2)
            nn.init.uniform_(layer.running_var, 0.5, 1.5)
    return module.eval()


def compare_outputs(net, batch, side, seed):
    """As compare_gradients, in one row."""
    module, (images, labels) = with_random_statistics(made(net, seed)), pictures(batch, side, seed)
    with tempfile.TemporaryDirectory() as place, torch.no_grad():
        folder = pathlib.Path(place)
        write_safetensors(folder / "in", state_of(module, images, labels))
        ours = crossbow_values("outputs", net, folder, "cpu")[0]["logits"]
        single = module(images).double().numpy().ravel()
        expected = module.double()(images.double()).numpy().ravel()
    return [([net.name, side], [error(found, expected) for found in (ours, single)])]


def rows_of(compare, net, batch, seeds):
    """The medians over the seeds."""
    by_seed = [compare(net, batch, seed) for seed in seeds]
    rows = []
    for ways in zip(*by_seed):
        medians = np.median([errors for _, errors in ways], axis=0)
        rows.append([*ways[0][0], *(f"{median:.1e}" for median in medians)])
    return rows


def torch_losses(module, net, images, labels, batch, lr):
    solver = torch.optim.SGD(module.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)
    losses = []
    for at in range(0, len(images), batch):
        solver.zero_grad()
        loss = loss_of(module, net, images[at : at + batch], labels[at : at + batch])[1]
        loss.backward()
        solver.step()
        losses.append(loss.item())
    return np.array(losses)


def compare_losses(net, batch, side, steps, lr, seed, zero_init):
    module = made(net, seed, zero_init)
    images, labels = pictures(batch * steps, side, seed)
    state = {name: t.clone() for name, t in module.state_dict().items()}
    with tempfile.TemporaryDirectory() as place:
        path = pathlib.Path(place) / "in"
        write_safetensors(path, state_of(module, images, labels))
        call = [NET_STEP, "losses", net.name, path, str(batch), str(lr)]
        printed = subprocess.run(call, check=True, text=True, stdout=subprocess.PIPE).stdout
    ours = np.array([float(line) for line in printed.split()])
    single = torch_losses(module, net, images, labels, batch, lr)
    module.load_state_dict(state)
    double = torch_losses(module.double(), net, images.double(), labels, batch, lr)
    log(f"double {double}\nCrossbow {ours - double}\nPyTorch {single - double}")
    return [f"{np.abs(x - double).max():.1e}" for x in (ours, single)]


def main():
    parser = parser_of("bench.near_pytorch", __doc__)
    parser.add_argument("what", choices=["outputs", "gradients", "losses", "exports", "checkpoints"])
    parser.add_argument("--models", type=listed(str), help="these only, but of losses and checkpoints")
    parser.add_argument("--model", default="resnet-50", help="of losses")
    parser.add_argument("--batch", type=int, help="pictures; of losses 32, else 4")
    parser.add_argument("--side", type=int, help="of pictures; of losses 96, of outputs the net's")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--lr", type=float, default=0.01)
    about = "medians over these, of losses a row for each (default 1)"
    parser.add_argument("--seeds", type=listed(int), default=[1], metavar="N,N", help=about)
    about = "of losses: torchvision's zero_init_residual"
    parser.add_argument("--zero-init", action="store_true", help=about)
    options = parser.parse_args()
    torch.set_num_threads(2)
    if options.what == "exports":
        print(table(["net", "tensors loaded"], load_exports(options.models or EXPORTED)))
        return
    if options.what == "checkpoints":
        print(table(["sync", "tensors of the model", "of learners"], open_checkpoints()))
        return
    if options.what == "losses":
        net = next(net for net in NETS if net.name == options.model)
        rows = [[net.name, seed, *compare_losses(net, options.batch or 32, options.side or 96, options.steps,
                                                 options.lr, seed, options.zero_init)]
                for seed in options.seeds]
        print(table(["net", "seed", "Crossbow, f32", "PyTorch, f32"], rows))
        return
    nets = [net for net in NETS if not options.models or net.name in options.models]
    if options.what == "outputs":  # which heads have no part in
        header = ["net", "side", "Crossbow, f32", "PyTorch, f32"]
        compare = lambda net, batch, seed: compare_outputs(net, batch, options.side or net.side, seed)
        nets = [net for net in nets if not net.auxiliary]
    else:
        header = ["net", "side", "by", "outputs", "gradients", "worst tensor"]
        compare = compare_gradients
    rows = []
    for net in nets:
        found = rows_of(compare, net, options.batch or 4, options.seeds)
        log(table(header, found))
        rows += found
    print(table(header, rows))


if __name__ == "__main__":
    main()
