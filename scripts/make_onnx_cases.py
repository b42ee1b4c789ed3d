#!/usr/bin/env python3
"""Writes tests/data/onnx/cases.json: small inputs and what ONNX's definitions make of them.

The expected values come from the reference evaluator of the `onnx` package, in double precision:

    python3 -m venv /tmp/onnx && /tmp/onnx/bin/pip install onnx==1.23.2 numpy
    /tmp/onnx/bin/python scripts/make_onnx_cases.py

The evaluator's pooling in ceil mode has been wrong in several releases (windows that start in the
right padding, divisors that count positions beyond it). So each pooling result is checked here
against the specification written out as loops, and the script stops if they differ.
"""
import itertools
import json
import pathlib

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

OPSET = 22
OUTPUT = pathlib.Path(__file__).parent.parent / "tests/data/onnx/cases.json"
rng = np.random.default_rng(1)
cases = []


def numbers(*shape, low=-2.0, high=2.0):
    return np.round(rng.uniform(low, high, shape), 2)


def evaluate(op, inputs, outputs, attributes):
    types = {np.dtype("float64"): onnx.TensorProto.DOUBLE, np.dtype("int64"): onnx.TensorProto.INT64}
    graph = helper.make_graph(
        [helper.make_node(op, list(inputs), outputs, **attributes)],
        "case",
        [helper.make_tensor_value_info(k, types[v.dtype], v.shape) for k, v in inputs.items()],
        [helper.make_tensor_value_info(k, onnx.TensorProto.DOUBLE, None) for k in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    return ReferenceEvaluator(model).run(None, inputs)


def as_json(array):
    values = [float(f"{v:.12g}") if array.dtype.kind == "f" else int(v) for v in array.ravel()]
    return {"shape": list(array.shape), "values": values}


def add(name, op, inputs, outputs=("y",), **attributes):
    results = evaluate(op, inputs, list(outputs), attributes)
    cases.append({
        "name": name,
        "op": op,
        "attributes": attributes,
        "inputs": {k: as_json(v) for k, v in inputs.items()},
        "outputs": {k: as_json(np.asarray(v)) for k, v in zip(outputs, results)},
    })
    return results[0]


def both(value):
    """One number for both axes, or one for each."""
    return list(value) if isinstance(value, (list, tuple)) else [value] * 2


def sides(padding):
    """One number for all sides, or top, left, bottom, right."""
    return list(padding) if isinstance(padding, (list, tuple)) else [padding] * 4


def conv(name, x, weights, bias=False, stride=1, padding=0, dilation=1, groups=1):
    inputs = {"x": numbers(*x), "weights": numbers(*weights)}
    if bias:
        inputs["bias"] = numbers(weights[0])
    add(name, "Conv", inputs, strides=both(stride), pads=sides(padding), dilations=both(dilation),
        group=groups)


def pool_by_loops(op, x, kernel, stride, padding, dilation, ceil_mode, count_include_pad):
    """The specification: windows over the padded image, none starting in the padding behind it."""
    def windows(axis):
        size, k, step, d = x.shape[2 + axis], kernel[axis], both(stride)[axis], both(dilation)[axis]
        before, after = sides(padding)[axis::2]
        travel = before + size + after - d * (k - 1) - 1
        count = (travel + (step - 1 if ceil_mode else 0)) // step + 1
        if (count - 1) * step >= size + before:
            count -= 1
        taps = [[i * step - before + d * t for t in range(k)] for i in range(count)]
        inner = [[t for t in window if 0 <= t < size] for window in taps]
        padded = [sum(t < size + after for t in window) for window in taps]
        return list(zip(inner, padded))

    rows, columns = windows(0), windows(1)
    y = np.zeros(x.shape[:2] + (len(rows), len(columns)))
    for (i, (h, hp)), (j, (w, wp)) in itertools.product(enumerate(rows), enumerate(columns)):
        window = x[:, :, h][:, :, :, w]
        if op == "MaxPool":
            y[:, :, i, j] = window.max(axis=(2, 3))
        else:
            divisor = hp * wp if count_include_pad else window.shape[2] * window.shape[3]
            y[:, :, i, j] = window.sum(axis=(2, 3)) / divisor
    return y


def pool(name, x, kernel, stride, padding=0, dilation=1):
    values = numbers(*x)
    for op, ceil_mode, count in [("MaxPool", 0, 0), ("MaxPool", 1, 0), ("AveragePool", 0, 0),
                                 ("AveragePool", 0, 1), ("AveragePool", 1, 0), ("AveragePool", 1, 1)]:
        if count and not padding and not ceil_mode:
            continue
        if ceil_mode and both(stride) == [1, 1]:  # the same as floor, but 1.23.2 adds max pool's padding twice
            continue
        attributes = {"count_include_pad": count} if op == "AveragePool" else {}
        full_name = f"{name}{', ceil' if ceil_mode else ''}{', padding counts' if count else ''}"
        result = add(full_name, op, {"x": values}, kernel_shape=kernel, strides=both(stride),
                     pads=sides(padding), dilations=both(dilation), ceil_mode=ceil_mode,
                     **attributes)
        expected = pool_by_loops(op, values, kernel, stride, padding, dilation, ceil_mode, count)
        if result.shape != expected.shape or not np.allclose(result, expected, atol=1e-12):
            raise SystemExit(f"onnx {onnx.__version__} is wrong for {op} '{full_name}'")


def batch_norm(name, shape, training, **attributes):
    channels = shape[1]
    inputs = {"x": numbers(*shape, low=-1, high=3), "scale": numbers(channels),
              "shift": numbers(channels), "mean": numbers(channels),
              "variance": numbers(channels, low=0.5, high=2)}
    outputs = ("y", "running_mean", "running_variance") if training else ("y",)
    add(name, "BatchNormalization", inputs, outputs, training_mode=training, **attributes)


def cross_entropy(name, rows, classes, scale):
    inputs = {"logits": numbers(rows, classes, low=-scale, high=scale),
              "labels": rng.integers(0, classes, rows)}
    add(name, "SoftmaxCrossEntropyLoss", inputs, ("loss",), reduction="mean")


def local_response_norm(name, shape, size, alpha, beta, bias):
    """By the specification: the evaluator leaves out each sum's last channel."""
    x = numbers(*shape)
    y = np.empty_like(x)
    for c in range(shape[1]):
        first, last = max(0, c - (size - 1) // 2), min(shape[1] - 1, c + size // 2)
        squares = (x[:, first:last + 1] ** 2).sum(axis=1)
        y[:, c] = x[:, c] / (bias + alpha / size * squares) ** beta
    cases.append({
        "name": name,
        "op": "LRN",
        "attributes": {"size": size, "alpha": alpha, "beta": beta, "bias": bias},
        "inputs": {"x": as_json(x)},
        "outputs": {"y": as_json(y)},
    })


conv("3x3", (1, 2, 5, 6), (3, 2, 3, 3))
conv("3x3 padded, bias", (2, 3, 5, 5), (4, 3, 3, 3), bias=True, padding=1)
conv("3x3 stride 2, odd", (1, 2, 7, 7), (3, 2, 3, 3), stride=2, padding=1)
conv("3x3 stride 2, even", (1, 2, 8, 6), (3, 2, 3, 3), stride=2, padding=1)
conv("1x1 stride 2", (2, 3, 5, 5), (4, 3, 1, 1), stride=2)
conv("5x3 kernel", (1, 2, 7, 6), (3, 2, 5, 3), bias=True, padding=1)
conv("dilation 2", (1, 2, 8, 8), (2, 2, 3, 3), padding=2, dilation=2)
conv("dilation 2, stride 2", (1, 2, 9, 8), (2, 2, 3, 3), padding=1, dilation=2, stride=2)
conv("groups 2", (1, 4, 5, 5), (6, 2, 3, 3), bias=True, padding=1, groups=2)
conv("depthwise", (1, 4, 5, 5), (4, 1, 3, 3), padding=1, groups=4)

pool("2x2", (1, 2, 6, 6), [2, 2], 2)
pool("2x2, odd", (1, 2, 7, 5), [2, 2], 2)
pool("3x3 stride 2", (1, 2, 8, 7), [3, 3], 2)
pool("3x3 stride 2, padded", (1, 2, 8, 7), [3, 3], 2, padding=1)
pool("2x2 stride 3, padded", (1, 2, 5, 5), [2, 2], 3, padding=1)
pool("3x2 stride 1, padded", (1, 2, 5, 4), [3, 2], 1, padding=1)

for training in (0, 1):
    mode = "training" if training else "inference"
    batch_norm(f"images, {mode}", (3, 4, 3, 3), training)
    batch_norm(f"rows, {mode}", (6, 5), training)
    batch_norm(f"momentum 0.7, epsilon 0.1, {mode}", (2, 3, 4, 2), training, momentum=0.7,
               epsilon=0.1)

add("rows", "Softmax", {"x": numbers(4, 7)}, axis=1)
add("large values", "Softmax", {"x": numbers(3, 5, low=-400, high=400)}, axis=1)
cross_entropy("5 classes", 4, 5, 2)
cross_entropy("large logits", 3, 10, 300)

for approximate in ("none", "tanh"):
    add(approximate, "Gelu", {"x": numbers(3, 7, low=-6, high=6)}, approximate=approximate)

conv("1x7 kernel, padded, bias", (1, 2, 4, 9), (3, 2, 1, 7), bias=True, padding=(0, 3, 0, 3))
conv("strides 2 and 1, padded by side", (2, 2, 8, 5), (3, 2, 3, 2), stride=(2, 1),
     padding=(0, 0, 1, 1))
conv("dilations 1 and 2, padded by side", (1, 2, 5, 8), (2, 2, 2, 3), padding=(1, 0, 0, 3),
     dilation=(1, 2))
conv("depthwise, 1x3 kernel", (1, 4, 3, 6), (4, 1, 1, 3), stride=(1, 2), padding=(0, 1, 0, 1),
     groups=4)

pool("1x3, padded", (1, 2, 4, 6), [1, 3], (1, 2), padding=(0, 1, 0, 1))
pool("strides 3 and 2, padded by side", (1, 2, 8, 7), [3, 2], (3, 2), padding=(0, 1, 2, 0))
pool("dilation 2", (1, 2, 7, 6), [3, 2], 2, dilation=2)
pool("dilations 1 and 3, padded by side", (1, 2, 5, 9), [2, 3], 2, padding=(1, 2, 0, 1),
     dilation=(1, 3))

local_response_norm("5 of 7 channels", (2, 7, 2, 3), size=5, alpha=0.5, beta=0.75, bias=2.0)
local_response_norm("3 of 16 channels", (1, 16, 3, 2), size=3, alpha=1.0, beta=0.5, bias=1.0)

lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
OUTPUT.parent.mkdir(parents=True, exist_ok=True)
OUTPUT.write_text(f'{{"onnx":"{onnx.__version__}","opset":{OPSET},"cases":[\n{lines}\n]}}\n')
print(f"{len(cases)} cases, {OUTPUT.stat().st_size} bytes")
