"""Python functions as tasks: `@task` makes a function submittable, a `Call` is a submitted one and gives its result.

Arguments and results travel as pickles in `.warpyard/calls` below the working directory, which submitter and worker share. The
function itself is found again by its module, or by its file where that is the script that was started.
"""

from __future__ import annotations

import functools
import json
import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any, Callable, Iterable, Optional

from .client import Client, Job, default_client
from .connection import WarpyardError
from .exchange import create_own, make_directory, open_own


class RemoteError(WarpyardError):
    """An exception that a function raised in its task; `traceback` is the text of where."""

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback

    def __str__(self) -> str:
        return f"{self.args[0]}\n\nin the task:\n{self.traceback}" if self.traceback else str(self.args[0])


class Function:
    """A function that can be submitted. Called directly it runs here, as if it were not decorated."""

    def __init__(self, function: Callable[..., Any], fields: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.fields = fields

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def submit(self, *args: Any, **kwargs: Any) -> "Call":
        """Submits one call; gives it at once."""
        return self._submit([(args, kwargs)], many=False)

    def map(self, *iterables: Iterable[Any]) -> "Call":
        """Submits a call for each tuple of arguments, as an array of one job. Its result is a list, in order."""
        calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [(args, {}) for args in zip(*iterables)]
        if not calls:
            raise ValueError("there is nothing to map over")
        return self._submit(calls, many=True)

    def options(self, **fields: Any) -> "Function":
        """The same function with other job fields on top of its own."""
        return Function(self.function, {**self.fields, **fields})

    def _submit(self, calls: list[tuple[tuple[Any, ...], dict[str, Any]]], many: bool) -> "Call":
        fields = dict(self.fields)
        client: Client = fields.pop("client", None) or default_client()
        workdir = Path(fields.pop("workdir", None) or os.getcwd()).absolute()
        directory = make_directory(workdir, "calls")
        try:
            for index, call in enumerate(calls):
                with create_own(directory / f"{index}.call") as file:
                    pickle.dump(call, file)
            with create_own(directory / "function.json") as file:
                file.write(json.dumps(_reference(self.function)).encode())
            command = [sys.executable, "-m", "warpyard.call", str(directory)]
            if many:
                fields["array"] = _array(len(calls), fields.pop("at_once", None))
                command.append("%{index}")
            fields.setdefault("name", self.function.__name__)
            job = client.submit(command, workdir=workdir, env=_with_this_package(), **fields)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return Call(job, directory, len(calls) if many else None)


class Call:
    """A submitted call, or an array of them."""

    def __init__(self, job: Job, directory: Path, count: Optional[int]) -> None:
        self.job = job
        self.directory = directory
        self.count = count

    def __repr__(self) -> str:
        return f"<Call {self.job!r}>"

    def result(self, timeout: Optional[float] = None) -> Any:
        """Waits for the call to end and gives what it returned, or raises `RemoteError` with what it raised.

        What was exchanged through files is removed once everything was read, so keep the result.
        """
        self.job.wait(timeout)
        results = [self._read(index) for index in range(self.count or 1)]
        shutil.rmtree(self.directory, ignore_errors=True)
        return results if self.count is not None else results[0]

    def _read(self, index: int) -> Any:
        # In the task the script that was started goes by this name, and so do the types of its own in a result.
        sys.modules.setdefault("__warpyard_main__", sys.modules["__main__"])
        try:
            with open_own(self.directory / f"{index}.result") as file:
                kind, value = pickle.load(file)
        except FileNotFoundError:
            # It ended before it could say how: killed, cancelled, timed out, or its interpreter did not start.
            self.job.wait(check=True)
            raise WarpyardError(f"job {self.job.id} left no result {index} in {self.directory}") from None
        if kind == "raised":
            message, traceback = value
            raise RemoteError(message, traceback)
        return value


def task(function: Optional[Callable[..., Any]] = None, **fields: Any) -> Any:
    """Makes a function submittable, with fields of the job document: `@task(gpus=1, timeout="2h")`.

    `client` chooses a server, `workdir` a directory, `at_once` how many calls of `map` may run at the same time.
    """
    if function is not None:
        return Function(function, fields)
    return lambda function: Function(function, fields)


def _array(count: int, at_once: Optional[int]) -> str:
    return f"0-{count - 1}" + (f"%{at_once}" if at_once else "")


def _reference(function: Callable[..., Any]) -> dict[str, Any]:
    """Where a task finds the function again."""
    if "<locals>" in function.__qualname__:
        raise ValueError(f"{function.__qualname__} is defined inside another function, where a task cannot find it")
    reference: dict[str, Any] = {"name": function.__qualname__, "path": [place for place in sys.path if place]}
    if function.__module__ != "__main__":
        return {**reference, "module": function.__module__}
    script = getattr(sys.modules["__main__"], "__file__", None)
    if script is None:
        raise ValueError(f"{function.__qualname__} was typed into an interpreter, where a task cannot find it; put it into a file")
    return {**reference, "script": os.path.abspath(script)}


def _with_this_package() -> dict[str, str]:
    """The variable that lets the task's interpreter find this package, wherever it was imported from."""
    package = str(Path(__file__).resolve().parent.parent)
    known = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": f"{package}{os.pathsep}{known}" if known else package}
