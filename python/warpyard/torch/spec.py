"""What a run of a model is: the JSON document that a submitter writes and the runner reads. Imports no PyTorch."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Mapping, Optional, Union

from ..connection import WarpyardError

MODES = ("infer", "train")
GRANULARITIES = ("job", "batch", "item")
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad")


class SpecError(WarpyardError):
    """A run that cannot be: names the field and what it may be."""


@dataclass
class RunSpec:
    """A run of a model over a dataset.

    `model` and `dataset` are import paths (`torchvision.models:resnet50`), files with a name in them (`my/net.py:Net`), or
    files saved by `torch.save` (`model.pt`). What an import path leads to is called with `model_args` or `dataset_args` unless
    it is an `nn.Module` or a `Dataset` already.
    """

    model: str
    dataset: str
    mode: str = "infer"
    batch_size: int = 1
    granularity: str = "batch"
    model_args: dict[str, Any] = field(default_factory=dict)
    dataset_args: dict[str, Any] = field(default_factory=dict)
    #: A file with a state dictionary to load into the model.
    weights: Optional[str] = None
    #: Where outputs, checkpoint and `result.json` go; beside the document where it is not said.
    output: Optional[str] = None
    #: What to keep of inference: `outputs`, or `none`.
    save: str = "outputs"
    epochs: int = 1
    optimizer: str = "sgd"
    learning_rate: float = 1e-3
    #: The loss: a name in `torch.nn.functional`, or an import path.
    loss: str = "cross_entropy"
    shuffle: bool = False
    seed: int = 0
    #: Processes that load data.
    loaders: int = 0

    def check(self) -> "RunSpec":
        """Raises `SpecError` on the first field that cannot be."""
        _one_of("mode", self.mode, MODES)
        _one_of("granularity", self.granularity, GRANULARITIES)
        _one_of("save", self.save, ("outputs", "none"))
        if self.mode == "train":
            _one_of("optimizer", self.optimizer, OPTIMIZERS)
        for name in ("batch_size", "epochs"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise SpecError(f"{name}: {value!r} is not a number from 1 on")
        for name in ("model", "dataset"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise SpecError(f"{name}: expected an import path such as 'torchvision.models:resnet50', or a file")
        return self

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any]) -> "RunSpec":
        """Reads a document; a field that does not exist is an error, with the one that was likely meant."""
        known = {one.name for one in fields(cls)}
        for name in document:
            if name not in known:
                raise SpecError(f"there is no field {name!r}{_suggestion(name, known)}")
        missing = [name for name in ("model", "dataset") if name not in document]
        if missing:
            raise SpecError(f"the field {missing[0]!r} is missing")
        return cls(**document).check()

    @classmethod
    def read(cls, path: Union[str, os.PathLike[str]]) -> "RunSpec":
        """Reads a document from a file; its directory is where outputs go unless it says otherwise."""
        try:
            document = json.loads(Path(path).read_text())
        except ValueError as error:
            raise SpecError(f"{path} is not JSON: {error}") from error
        if not isinstance(document, dict):
            raise SpecError(f"{path} is not a JSON object")
        spec = cls.from_mapping(document)
        spec.output = spec.output or str(Path(path).absolute().parent)
        return spec

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise SpecError(f"{name}: {value!r} is none of {', '.join(allowed)}")


def _suggestion(name: str, known: set[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(sorted(known))}"
