"""Submitting runs of models, and estimating the GPU memory they take before they run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from ..client import Client, Job, default_client
from ..connection import WarpyardError
from ..exchange import make_directory, open_own
from ..function import _with_this_package
from .spec import RunSpec

if TYPE_CHECKING:
    from torch import nn
    from torch.utils.data import Dataset

Model = Union["nn.Module", str]
Data = Union["Dataset[Any]", str]


class Estimate(dict[str, Any]):
    """What `warpyard estimate` says of a model, by the names of its JSON."""

    @property
    def request_bytes(self) -> int:
        """The GPU memory to request: the upper bound, which includes the assumed CUDA context."""
        return int(self["upper_bytes"])


class Run:
    """A submitted run of a model."""

    def __init__(self, job: Job, directory: Path) -> None:
        self.job = job
        #: Where its outputs, its checkpoint and `result.json` are.
        self.directory = directory

    def __repr__(self) -> str:
        return f"<Run {self.job!r}>"

    def result(self, timeout: Optional[float] = None) -> dict[str, Any]:
        """Waits for the run to succeed and gives what it measured: items, seconds, items per second, files."""
        self.job.wait(timeout, check=True)
        return dict(json.loads((self.directory / "result.json").read_text()))

    def outputs(self, timeout: Optional[float] = None) -> list[Any]:
        """Waits for an inference to succeed and gives the model's outputs, batch by batch."""
        import torch

        outputs = []
        for name in self.result(timeout)["outputs"]:
            with open_own(self.directory / name) as file:
                outputs.append(torch.load(file, weights_only=False))
        return outputs

    def state_dict(self, timeout: Optional[float] = None) -> dict[str, Any]:
        """Waits for a training to succeed and gives the trained weights."""
        import torch

        self.result(timeout)
        weights: dict[str, Any] = torch.load(self.directory / "model.pt", map_location="cpu", weights_only=True)
        return weights


def infer(model: Model, dataset: Data, **options: Any) -> Run:
    """Submits inference of a model over a dataset; see the module for the options."""
    return _submit("infer", model, dataset, options)


def train(model: Model, dataset: Data, **options: Any) -> Run:
    """Submits training of a model on a dataset of (input, target) pairs; see the module for the options."""
    return _submit("train", model, dataset, options)


def _submit(mode: str, model: Model, dataset: Data, options: dict[str, Any]) -> Run:
    """Writes the run's document, with model and dataset beside it where they are objects, and submits it.

    Options that are fields of `RunSpec` describe the run; the others are fields of the job document.
    """
    known = RunSpec.__dataclass_fields__
    described = {name: options.pop(name) for name in list(options) if name in known}
    client: Client = options.pop("client", None) or default_client()
    workdir = Path(options.pop("workdir", None) or os.getcwd()).absolute()
    output = described.pop("output", None)
    directory = Path(output).absolute() if output else make_directory(workdir, "runs")
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    spec = RunSpec(
        model=_reference(model, directory / "model.input.pt"),
        dataset=_reference(dataset, directory / "dataset.input.pt"),
        mode=mode,
        **described,
    ).check()
    path = directory / "run.json"
    path.write_text(spec.to_json() + "\n")
    fields: dict[str, Any] = {"gpus": 1, "name": f"{mode}-{_name(model)}", "steps": _steps(spec, dataset)}
    fields["preempt"] = "none" if spec.granularity == "job" else "yield"
    fields.update(options)
    if fields["gpus"] and "gpu_memory" not in fields:
        fields["gpu_memory"] = _estimated_request(mode, model, dataset, spec)
    command = [sys.executable, "-m", "warpyard.torch.runner", str(path)]
    job = client.submit(command, workdir=workdir, env=_with_this_package(), **fields)
    return Run(job, directory)


def _reference(value: Any, path: Path) -> str:
    """A model or dataset by a reference that the runner can follow: as it is, or saved beside the document."""
    if isinstance(value, str):
        return value
    import torch

    torch.save(value, path)
    return str(path)


def _name(model: Model) -> str:
    name = model.rpartition(":")[2] or model if isinstance(model, str) else type(model).__name__
    return Path(name).stem.lower()


def _steps(spec: RunSpec, dataset: Data) -> Optional[int]:
    if isinstance(dataset, str):
        return None
    batches = -(-len(dataset) // spec.batch_size)  # type: ignore[arg-type]
    return batches * (spec.epochs if spec.mode == "train" else 1)


def _estimated_request(mode: str, model: Model, dataset: Data, spec: RunSpec) -> Optional[int]:
    """The memory to request by the estimate. Where none can be made the task has a whole GPU, which a warning says."""
    if isinstance(model, str) or isinstance(dataset, str):
        return None
    try:
        item = dataset[0]
        example = item[0] if isinstance(item, (list, tuple)) else item
        made = estimate(model, example.unsqueeze(0), batch=spec.batch_size, mode=mode, optimizer=spec.optimizer)
    except Exception as error:
        warnings.warn(f"no estimate of {_name(model)}, so it gets a GPU to itself: {error}", stacklevel=4)
        return None
    return made.request_bytes


def estimate(
    model: "nn.Module",
    example: Any,
    batch: Optional[int] = None,
    mode: str = "infer",
    optimizer: str = "sgd",
    gpu: Optional[str] = None,
) -> Estimate:
    """Exports a model and has `warpyard estimate` say what GPU memory it takes; the model is not run.

    `example` is one input with a batch dimension, or a tuple of inputs; `batch` replaces the size of that dimension.
    """
    import torch

    inputs = example if isinstance(example, tuple) else (example,)
    # A batch of one would be taken for a constant, so the export sees two.
    inputs = tuple(one.expand(2, *one.shape[1:]) if one.shape[0] == 1 else one for one in inputs)
    batch = batch or (example if not isinstance(example, tuple) else example[0]).shape[0]
    axis = torch.export.Dim("batch", min=2, max=1 << 20)
    was_training = model.training
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "model.pt2"
        try:
            model.train(mode == "train")
            exported = torch.export.export(model, inputs, dynamic_shapes=tuple({0: axis} for _ in inputs), strict=False)
            torch.export.save(exported, path)
        finally:
            model.train(was_training)
        command = [_binary(), "estimate", str(path), "--batch", str(batch), "--mode", mode, "--json"]
        command += ["--optimizer", optimizer] if mode == "train" else []
        command += ["--gpu", gpu] if gpu else []
        answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        raise WarpyardError(f"cannot estimate the model: {answer.stderr.strip() or answer.stdout.strip()}")
    return Estimate(json.loads(answer.stdout))


def _binary() -> str:
    binary = os.environ.get("WARPYARD_BIN") or shutil.which("warpyard")
    if not binary:
        raise WarpyardError("the program warpyard is not on PATH, and WARPYARD_BIN does not name it")
    return binary
