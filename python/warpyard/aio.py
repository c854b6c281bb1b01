"""The client for asyncio: the same calls as coroutines, each on a thread of its own, since a wait may last for days.

    job = await warpyard.aio.submit(["python", "train.py"], gpus=1)
    await warpyard.aio.wait(job)
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, AsyncIterator, Callable, Optional, TypeVar, Union

from . import client as blocking
from .client import Command, Job

T = TypeVar("T")


async def submit(command: Optional[Command] = None, **arguments: Any) -> Job:
    """Submits a job; see `warpyard.submit`."""
    return await _on_a_thread(lambda: blocking.submit(command, **arguments))


async def wait(job: Union[Job, str, int], timeout: Optional[float] = None, check: bool = False) -> Job:
    """Waits until a job has ended; see `warpyard.wait`. Cancelling this leaves the job alone."""
    return await _on_a_thread(lambda: blocking.wait(job, timeout, check))


async def cancel(job: Union[Job, str, int], now: bool = False) -> int:
    """Cancels a job; see `warpyard.cancel`."""
    return await _on_a_thread(lambda: blocking.cancel(job, now))


async def logs(job: Union[Job, str, int], follow: bool = False, **which: Any) -> AsyncIterator[str]:
    """The log of a job, line by line; see `warpyard.logs`."""
    lines = blocking.logs(job, follow, **which)
    end = object()
    while (line := await _on_a_thread(lambda: next(lines, end))) is not end:
        assert isinstance(line, str)
        yield line


async def result(call: Any, timeout: Optional[float] = None) -> Any:
    """Waits for the result of a submitted function; see `warpyard.Call.result`."""
    return await _on_a_thread(lambda: call.result(timeout))


async def _on_a_thread(work: Callable[[], T]) -> T:
    """Runs a blocking call on a daemon thread: a pool's bounded number of threads would let long waits starve the rest."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(set_it: Callable[[Any], None], value: Any) -> None:
        if not done.done():
            set_it(value)

    def run() -> None:
        try:
            outcome: tuple[Callable[[Any], None], Any] = (done.set_result, work())
        except BaseException as error:
            outcome = (done.set_exception, error)
        try:
            loop.call_soon_threadsafe(settle, *outcome)
        except RuntimeError:
            pass  # the loop was closed meanwhile, and nobody waits any more

    threading.Thread(target=run, name="warpyard", daemon=True).start()
    return await done
