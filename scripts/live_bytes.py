"""Bytes of live tensors of a PyTorch program, counted as storages come and go beneath autograd.

What kernels allocate inside themselves is not seen: it differs by device, and estimates are of tensors.
"""
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Counts every storage that an operator returns until it is freed."""

    def __init__(self):
        super().__init__()
        self.live = self.peak = 0
        self.known = weakref.WeakKeyDictionary()

    def add(self, value):
        """Counts the storages of tensors that exist already, such as weights."""
        for tensor in tree_leaves(value):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage not in self.known:
                    self.known[storage] = None
                    self.live += storage.nbytes()
                    weakref.finalize(storage, self.drop, storage.nbytes())
        self.peak = max(self.peak, self.live)

    def drop(self, size):
        self.live -= size

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.add(result)
        return result


def inference(model, inputs):
    """Peak of two passes; the caller's variables keep the batch and the last result."""
    live = LiveBytes()
    live.add([*model.parameters(), *model.buffers()])
    batch = None
    with torch.no_grad(), live:
        for _ in range(2):
            del batch
            batch = [tensor.clone() for tensor in inputs]
            result = model(*batch)
    del result
    return live.peak


def training(model, inputs, make_optimizer):
    """Peak of three steps of a plain loop: drop gradients, batch, forward, loss, backward, step."""
    live = LiveBytes()
    live.add([*model.parameters(), *model.buffers()])
    with live:
        optimizer, batch = make_optimizer(model.parameters()), None
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            del batch
            batch = [tensor.clone() for tensor in inputs]
            result = model(*batch)
            loss = loss_of(result)
            loss.backward()
            optimizer.step()
    del result
    return live.peak


def loss_of(result):
    """A result that is no scalar is taken for scores of classes: cross entropy over the second dimension, or the last of a sequence."""
    if result.dim() == 0:
        return result
    scores = result.flatten(0, 1) if result.dim() == 3 else result
    wanted = torch.zeros([size for at, size in enumerate(scores.shape) if at != 1], dtype=torch.long)
    return torch.nn.functional.cross_entropy(scores, wanted)
