"""`python -m warpyard.torch.runner SPEC.json`: runs a model over a dataset inside a task.

The loop is the same for inference and training: take a batch, compute, report progress, and, where the run's granularity
allows it and the server asks, save and exit with `GIVE_WAY`, to continue from there in the next attempt. Outputs, checkpoint
and `result.json` are each renamed into place, so that a killed runner leaves nothing half written.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

from .. import inside
from ..exchange import create_own, open_own
from .spec import RunSpec, SpecError

#: How often the server is asked whether to yield, at most: a request takes a fraction of a millisecond.
ASK_EVERY = 0.2

CHECKPOINT = "checkpoint.pt"


class Run:
    """A run of a model: what was loaded, and how far it is."""

    def __init__(self, spec: RunSpec) -> None:
        self.spec = spec
        self.output = Path(spec.output or os.getcwd())
        self.output.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(spec.seed)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model: nn.Module = load_model(spec).to(self.device)
        self.dataset = load_dataset(spec)
        self.batches = -(-len(self.dataset) // spec.batch_size)  # type: ignore[arg-type]
        #: Batches done, over all epochs and attempts.
        self.done = 0
        #: Seconds of computing, over all attempts.
        self.seconds = 0.0

    @property
    def total(self) -> int:
        """Batches of the whole run."""
        return self.batches * (self.spec.epochs if self.spec.mode == "train" else 1)

    def loader(self, epoch: int, first: int) -> Iterator[Any]:
        """The batches of an epoch from `first` on: the order is a function of seed and epoch, so an attempt can continue it."""
        # A generator of its own: a loader draws from one when it is made, and drawing from the global one would make a
        # continued epoch differ from an uninterrupted one in what the model draws, such as dropout.
        generator = torch.Generator().manual_seed(self.spec.seed + epoch)
        count = len(self.dataset)  # type: ignore[arg-type]
        order = torch.randperm(count, generator=generator).tolist() if self.spec.shuffle else list(range(count))
        size = self.spec.batch_size
        chunks = [order[at : at + size] for at in range(first * size, count, size)]
        sampler: Sampler[list[int]] = chunks  # type: ignore[assignment]
        return iter(DataLoader(self.dataset, batch_sampler=sampler, num_workers=self.spec.loaders, generator=generator))

    def report(self, finished: bool = False) -> bool:
        """Reports progress; gives whether to yield now."""
        if finished:
            inside.progress(self.done, every=0)
            return False
        return inside.progress(self.done, ASK_EVERY) and self.spec.granularity != "job"

    def save(self, name: str, value: Any) -> None:
        """Writes a file of the run, whole or not at all."""
        part = self.output / f".{name}.part"
        with create_own(part) as file:
            torch.save(value, file)
        os.replace(part, self.output / name)

    def finish(self, **measured: Any) -> None:
        """Writes `result.json` and removes what only another attempt would need."""
        self.report(finished=True)
        items = len(self.dataset) * (self.spec.epochs if self.spec.mode == "train" else 1)  # type: ignore[arg-type]
        result = {
            "mode": self.spec.mode,
            "device": str(self.device),
            "items": items,
            "batches": self.done,
            "seconds": round(self.seconds, 6),
            "items_per_second": round(items / self.seconds, 3) if self.seconds > 0 else None,
            **measured,
        }
        if self.device.type == "cuda":
            result["peak_gpu_memory_bytes"] = torch.cuda.max_memory_reserved(self.device)
        part = self.output / ".result.part"
        part.write_text(json.dumps(result, indent=2) + "\n")
        os.replace(part, self.output / "result.json")
        (self.output / CHECKPOINT).unlink(missing_ok=True)


def infer(run: Run) -> None:
    """Inference: outputs are saved batch by batch, so what was computed before a preemption is never computed again."""
    spec = run.spec
    run.model.eval()
    saved = load_checkpoint(run)
    run.done, run.seconds = saved.get("done", 0), saved.get("seconds", 0.0)
    #: Outputs of the items of a batch that was interrupted.
    partial: list[Any] = saved.get("partial", [])
    with torch.inference_mode():
        for batch in run.loader(0, run.done):
            began = time.perf_counter()
            inputs = to_device(model_inputs(batch), run.device)
            if spec.granularity == "item":
                items = split(inputs)
                for at in range(len(partial), len(items)):
                    partial.append(to_cpu(run.model(*items[at])))
                    if at + 1 < len(items) and run.report():
                        run.seconds += time.perf_counter() - began
                        leave(run, {"done": run.done, "seconds": run.seconds, "partial": partial})
                outputs, partial = join(partial), []
            else:
                outputs = to_cpu(run.model(*inputs))
            if spec.save == "outputs":
                run.save(output_name(run.done), outputs)
            run.done += 1
            run.seconds += time.perf_counter() - began
            if run.done < run.total and run.report():
                leave(run, {"done": run.done, "seconds": run.seconds})
    names = [output_name(at) for at in range(run.done)] if spec.save == "outputs" else []
    run.finish(outputs=names)


def train(run: Run) -> None:
    """Training: model, optimiser and random state are saved when the run yields, and once at its end."""
    spec = run.spec
    run.model.train()
    optimizer = make_optimizer(spec, run.model)
    loss_of = find_loss(spec.loss)
    saved = load_checkpoint(run)
    losses: list[float] = saved.get("losses", [])
    if saved:
        run.model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["random"].cpu())
        if run.device.type == "cuda":
            torch.cuda.set_rng_state(saved["cuda_random"].cpu(), run.device)
        run.done, run.seconds = saved["done"], saved["seconds"]
    while run.done < run.total:
        epoch, first = divmod(run.done, run.batches)
        # The sum over the part of the epoch that this attempt and earlier ones have done.
        so_far = saved.pop("epoch_loss", 0.0) if first else 0.0
        for batch in run.loader(epoch, first):
            began = time.perf_counter()
            if not isinstance(batch, (list, tuple)) or len(batch) != 2:
                raise SpecError("dataset: training needs items that are pairs of input and target")
            inputs, target = to_device(batch, run.device)
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(run.model(inputs), target)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            so_far += float(loss.detach())
            run.done += 1
            run.seconds += time.perf_counter() - began
            if run.done % run.batches and run.report():
                leave(run, training_state(run, optimizer, losses, so_far))
        losses.append(so_far / run.batches)
        print(f"epoch {epoch + 1} of {spec.epochs}: mean loss {losses[-1]:.6g}", flush=True)
        if run.done < run.total and run.report():
            leave(run, training_state(run, optimizer, losses, 0.0))
    run.save("model.pt", run.model.state_dict())
    run.finish(losses=losses, model="model.pt")


def training_state(run: Run, optimizer: torch.optim.Optimizer, losses: list[float], epoch_loss: float) -> dict[str, Any]:
    return {
        "model": run.model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "random": torch.get_rng_state(),
        "cuda_random": torch.cuda.get_rng_state(run.device) if run.device.type == "cuda" else None,
        "done": run.done,
        "seconds": run.seconds,
        "losses": losses,
        "epoch_loss": epoch_loss,
    }


def leave(run: Run, state: dict[str, Any]) -> None:
    """Saves and exits, to be started again later."""
    run.save(CHECKPOINT, state)
    print(f"yielding after {run.done} of {run.total} batches", flush=True)
    inside.leave()


def load_checkpoint(run: Run) -> dict[str, Any]:
    """What an earlier attempt of this task saved. A run that is started anew in the same directory begins anew."""
    path = run.output / CHECKPOINT
    if not inside.restarted() or not path.exists():
        return {}
    with open_own(path) as file:
        saved: dict[str, Any] = torch.load(file, map_location=run.device, weights_only=False)
    return saved


def output_name(batch: int) -> str:
    return f"outputs-{batch:06}.pt"


def load_model(spec: RunSpec) -> nn.Module:
    """The model: imported and constructed, or as it was saved, with its weights."""
    model: nn.Module = resolve("model", spec.model, nn.Module, spec.model_args)
    if spec.weights:
        model.load_state_dict(torch.load(spec.weights, map_location="cpu", weights_only=True))
    return model


def load_dataset(spec: RunSpec) -> Dataset[Any]:
    """The dataset: anything with a length whose items can be asked for by number."""
    dataset: Dataset[Any] = resolve("dataset", spec.dataset, Dataset, spec.dataset_args)
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise SpecError(f"dataset: {spec.dataset} has no length or no items by number; iterable datasets cannot be continued")
    if len(dataset) == 0:
        raise SpecError(f"dataset: {spec.dataset} is empty")
    return dataset


def resolve(field: str, reference: str, kind: type, arguments: dict[str, Any]) -> Any:
    """What a reference leads to: a file that `torch.save` wrote, or a name in a module or a Python file."""
    place, colon, name = reference.rpartition(":")
    if not colon:
        if not os.path.exists(reference):
            raise SpecError(f"{field}: {reference!r} is neither a file nor an import path such as 'package.module:Name'")
        return torch.load(reference, map_location="cpu", weights_only=False)
    found: Any = import_file(place) if place.endswith(".py") else import_module(field, place)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise SpecError(f"{field}: there is no {name} in {place}") from None
    return found if isinstance(found, kind) else found(**arguments)


def import_module(field: str, name: str) -> Any:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise SpecError(f"{field}: there is no module {error.name} here") from error


def import_file(path: str) -> Any:
    described = importlib.util.spec_from_file_location(Path(path).stem, path)
    if described is None or described.loader is None or not os.path.exists(path):
        raise SpecError(f"there is no Python file {path}")
    sys.path.insert(0, str(Path(path).absolute().parent))
    module = importlib.util.module_from_spec(described)
    sys.modules[described.name] = module
    described.loader.exec_module(module)
    return module


def find_loss(name: str) -> Callable[[Any, Any], torch.Tensor]:
    if ":" not in name:
        found = getattr(nn.functional, name, None)
        if found is None:
            raise SpecError(f"loss: there is no {name} in torch.nn.functional; name another by an import path")
        return found  # type: ignore[no-any-return]
    place, _, attribute = name.rpartition(":")
    loss = getattr(import_file(place) if place.endswith(".py") else import_module("loss", place), attribute)
    return loss() if isinstance(loss, type) else loss  # type: ignore[no-any-return]


def make_optimizer(spec: RunSpec, model: nn.Module) -> torch.optim.Optimizer:
    rate: dict[str, Any] = {"lr": spec.learning_rate}
    makers: dict[str, Callable[..., torch.optim.Optimizer]] = {
        "sgd": torch.optim.SGD,
        "momentum": lambda parameters, **options: torch.optim.SGD(parameters, momentum=0.9, **options),
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "rmsprop": torch.optim.RMSprop,
        "adagrad": torch.optim.Adagrad,
    }
    return makers[spec.optimizer](model.parameters(), **rate)


def model_inputs(batch: Any) -> tuple[Any, ...]:
    """What of a batch the model is called with: a dataset's (input, target) pairs are called with the input."""
    if isinstance(batch, (list, tuple)):
        return (batch[0],)
    return (batch,)


def to_device(value: Any, device: torch.device) -> Any:
    return _each_tensor(value, lambda tensor: tensor.to(device, non_blocking=True))


def to_cpu(value: Any) -> Any:
    return _each_tensor(value, lambda tensor: tensor.detach().to("cpu"))


def _each_tensor(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return _like(value, {key: _each_tensor(one, change) for key, one in value.items()})
    if isinstance(value, (list, tuple)):
        return _like(value, [_each_tensor(one, change) for one in value])
    return value


def _like(value: Any, parts: Any) -> Any:
    """A container of the same type with other contents: also named tuples, and the outputs of Hugging Face models."""
    if isinstance(value, dict):
        return parts if type(value) is dict else type(value)(**parts)
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def split(inputs: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """A batch's items, each as a batch of one."""
    size = inputs[0].shape[0] if isinstance(inputs[0], torch.Tensor) else len(next(iter(inputs[0].values())))
    return [_each_tensor(inputs, lambda tensor, at=at: tensor[at : at + 1]) for at in range(size)]  # type: ignore[misc]


def join(outputs: list[Any]) -> Any:
    """One batch's outputs from those of its items."""
    first = outputs[0]
    if isinstance(first, torch.Tensor):
        return torch.cat(outputs)
    if isinstance(first, dict):
        return _like(first, {key: join([one[key] for one in outputs]) for key in first})
    if isinstance(first, (list, tuple)):
        return _like(first, [join([one[at] for one in outputs]) for at in range(len(first))])
    return outputs


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m warpyard.torch.runner SPEC.json", file=sys.stderr)
        return 2
    try:
        run = Run(RunSpec.read(arguments[0]))
        print(f"{run.spec.mode}: {run.batches} batches of {run.spec.batch_size} on {run.device}", flush=True)
        (infer if run.spec.mode == "infer" else train)(run)
    except SpecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
