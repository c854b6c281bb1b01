"""From inside a task: how far it is, and whether it should give way.

    import warpyard

    for step in range(load_checkpoint(), 10_000):
        train(step)
        if warpyard.progress(step + 1):  # someone waits for this GPU
            save_checkpoint(step + 1)
            warpyard.leave()

Outside a task all of this does nothing, so that a script runs alike wherever it is started. It needs the program `warpyard`,
which knows where the server is, and nothing else.
"""

import os
import subprocess
import sys
import time

__all__ = ["GIVE_WAY", "leave", "progress", "restarted"]

#: The code a task exits with when it gives way, and `warpyard progress` when it should.
GIVE_WAY = 75

_last = None
_complained = False


def in_task():
    """Whether this runs as a task of warpyard's."""
    return "WARPYARD_JOB_ID" in os.environ


def restarted():
    """Whether this task has run before and should go on from what it saved."""
    return os.environ.get("WARPYARD_RESTARTED", "0") not in ("", "0")


def progress(steps, every=5.0):
    """Says that so many steps are done since the task first began; gives whether the task should save now and leave.

    However often it is called, the server is told once in so many seconds, and first at once. Where it cannot be told,
    that is said on standard error, once, and the work goes on.
    """
    global _last
    now = time.monotonic()
    if not in_task() or (_last is not None and now - _last < every):
        return False
    _last = now
    program = os.environ.get("WARPYARD_BIN", "warpyard")
    try:
        told = subprocess.run([program, "progress", str(int(steps))], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _complain(str(error))
    if told.returncode not in (0, GIVE_WAY):
        return _complain(told.stderr.decode(errors="replace").strip())
    return told.returncode == GIVE_WAY


def leave():
    """Ends this program so that the task is run again later; call it after saving."""
    sys.exit(GIVE_WAY)


def _complain(why):
    global _complained
    if not _complained:
        print(f"warpyard: progress could not be told: {why}", file=sys.stderr)
        _complained = True
    return False
