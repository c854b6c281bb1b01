"""`python -m warpyard.call DIRECTORY [INDEX]`: runs one call of a function in its task and leaves the result beside it."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import runpy
import sys
import traceback
import types
from pathlib import Path
from typing import Any

from .exchange import create_own, open_own


def main(directory: Path, index: str) -> int:
    with open_own(directory / "function.json") as file:
        reference = json.load(file)
    sys.path[:] = list(dict.fromkeys(sys.path + reference["path"]))
    try:
        function = _find(reference)
        with open_own(directory / f"{index}.call") as file:
            args, kwargs = pickle.load(file)
        result = pickle.dumps(("returned", function(*args, **kwargs)))
        failed = False
    except Exception as error:
        traceback.print_exc()
        result = pickle.dumps(("raised", (f"{type(error).__name__}: {error}", traceback.format_exc())))
        failed = True
    # Renamed into place, so that a result is whole or absent.
    part = directory / f".{index}.part"
    with create_own(part) as file:
        file.write(result)
    os.replace(part, directory / f"{index}.result")
    return 1 if failed else 0


def _find(reference: dict[str, Any]) -> Any:
    if "module" in reference:
        found: Any = importlib.import_module(reference["module"])
    else:
        # As multiprocessing does: the script runs under another name than __main__, and stands in for it, so that
        # arguments of its own types are found.
        namespace = runpy.run_path(reference["script"], run_name="__warpyard_main__")
        found = types.ModuleType("__warpyard_main__")
        found.__dict__.update(namespace)
        sys.modules["__main__"] = sys.modules["__warpyard_main__"] = found
    for name in reference["name"].split("."):
        found = getattr(found, name)
    return getattr(found, "function", found)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "0"))
