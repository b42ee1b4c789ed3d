"""A step of PyTorch as a CUDA graph."""

import torch

WARM_UP_STEPS = 5  # before a step is captured: cuDNN chooses, and the optimizer makes its state


def capture(step):
    """The graph, and where each replay leaves what the step returns."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP_STEPS):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        left = step()
    return graph, left
