"""PyTorch models as jobs: any `nn.Module` and any `Dataset`, given as objects or by where they are imported from.

    import torchvision
    import warpyard.torch

    run = warpyard.torch.infer(torchvision.models.resnet50(), MyDataset(), batch_size=128, priority=3, granularity="batch")
    outputs = run.outputs()                       # waits; one entry per batch

    run = warpyard.torch.train("torchvision.models:resnet18", "my.data:Celeba", batch_size=64, epochs=3, optimizer="adam")
    model.load_state_dict(run.state_dict())

The task runs `python -m warpyard.torch.runner` on a JSON file, which other programs can write as well (`RunSpec` lists its
fields). It uses the GPU it was granted where PyTorch sees one and the CPU elsewhere, reports its progress in batches, and with
`granularity="batch"` or `"item"` yields to more urgent jobs and continues where it was. Nothing here imports PyTorch before it
is needed.
"""

from .submit import Estimate, Run, estimate, infer, train
from .spec import RunSpec, SpecError

__all__ = ["Estimate", "Run", "RunSpec", "SpecError", "estimate", "infer", "train"]
