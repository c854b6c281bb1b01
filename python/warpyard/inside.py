"""From inside a task: its progress, and whether it should yield."""

from __future__ import annotations

import os
import sys
import time
from typing import NoReturn, Optional

from .connection import Address, Connection, WarpyardError

#: The exit code of a task that yields: it is started again later.
GIVE_WAY = 75

_connection: Optional[Connection] = None
_last: Optional[float] = None
_complained = False


def in_task() -> bool:
    """Whether this process runs as a task of warpyard."""
    return "WARPYARD_JOB_ID" in os.environ


def restarted() -> bool:
    """Whether an earlier attempt of this task ran, so that it should continue from what it saved."""
    return os.environ.get("WARPYARD_RESTARTED", "0") not in ("", "0")


def progress(steps: int, every: float = 5.0) -> bool:
    """Reports the steps done since the task first started; gives whether the task should save now and leave.

    However often it is called, the server is asked at most once in `every` seconds, over a connection that is kept. Where it
    cannot be reached, that is said on standard error, once, and the work goes on.
    """
    global _connection, _last
    now = time.monotonic()
    if not in_task() or (_last is not None and now - _last < every):
        return False
    _last = now
    index = os.environ.get("WARPYARD_ARRAY_INDEX")
    body = {
        "task": os.environ.get("WARPYARD_TASK", ""),
        "index": int(index) if index else None,
        "attempt": int(os.environ.get("WARPYARD_ATTEMPT", "1")),
        "steps": int(steps),
    }
    try:
        if _connection is None:
            _connection = Connection(Address.find())
        path = f"/v1/jobs/{os.environ['WARPYARD_JOB_ID']}/progress"
        answer = _connection.request("POST", path, body=body, repeatable=True)
    except WarpyardError as error:
        return _complain(str(error))
    return bool(answer["give_way"])


def leave() -> NoReturn:
    """Ends this process so that the task runs again later; call it after saving."""
    sys.exit(GIVE_WAY)


def _complain(why: str) -> bool:
    global _complained
    if not _complained:
        print(f"warpyard: cannot report progress: {why}", file=sys.stderr)
        _complained = True
    return False
