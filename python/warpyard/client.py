"""Submitting jobs and following them: `Client`, the `Job` it returns, and the same as functions of the module."""

from __future__ import annotations

import os
import secrets
import time
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

from .connection import Address, Connection, Refused, WarpyardError

Command = Union[str, Sequence[str]]

#: The longest the server holds a request that waits, in seconds.
_LONGEST_WAIT = 100.0

#: Variables that belong to the session a job is submitted from, or that would let a task act for its owner.
_NOT_INHERITED = {"_", "PWD", "OLDPWD", "SHLVL", "LINES", "COLUMNS", "TMUX", "TMUX_PANE", "STY", "GPG_TTY", "WARPYARD_TOKEN"}
_NOT_INHERITED_PREFIXES = ("SSH_", "XDG_SESSION_")
#: Variables that say which task this is: a job submitted from inside a task is not that task.
_OF_THIS_TASK = {
    "WARPYARD_JOB_ID", "WARPYARD_TASK", "WARPYARD_ATTEMPT", "WARPYARD_ARRAY_INDEX", "WARPYARD_RESTARTED", "WARPYARD_ATTEMPT_DIR",
    "WARPYARD_GPUS", "WARPYARD_SUBMIT_DIR",
}


class JobFailed(WarpyardError):
    """A job that ended otherwise than by succeeding; `job` has the details."""

    def __init__(self, job: "Job", outcome: str, reason: str) -> None:
        super().__init__(f"job {job.id} ({job.name}) {outcome}{reason}; `warpyard logs {job.id}` shows its output")
        self.job = job
        self.outcome = outcome


class Client:
    """A server, and what can be asked of it. Safe to share between threads."""

    def __init__(self, server: Optional[str] = None, data: Optional[str] = None) -> None:
        """Finds the server as the command line does: `server`, `WARPYARD_SERVER`, the data directory, the machine's own."""
        self.connection = Connection(Address.find(server, data))

    def submit(
        self,
        command: Optional[Command] = None,
        *,
        document: Optional[Mapping[str, Any]] = None,
        workdir: Optional[Union[str, os.PathLike[str]]] = None,
        env: Optional[Mapping[str, str]] = None,
        inherit_env: bool = True,
        idempotency_key: Optional[str] = None,
        **fields: Any,
    ) -> "Job":
        """Submits a command, or a whole job document, and gives the job.

        Further arguments are fields of the job document (`gpus=1, gpu_memory="6GiB", priority=3, timeout="2h"`;
        `warpyard schema job` lists them). Tasks run in `workdir` with this process's environment and `env` on top of it.
        """
        doc: dict[str, Any] = dict(document or {})
        doc.update({name: value for name, value in fields.items() if value is not None})
        if command is not None:
            doc["command"] = command if isinstance(command, str) else [os.fspath(word) for word in command]
        inherited = _inheritable(os.environ) if inherit_env else {}
        body = {
            "doc": doc,
            "workdir": os.path.abspath(workdir or os.getcwd()),
            "env": {**inherited, **(env or {})},
            # The request may be repeated after a broken connection, and must not make two jobs.
            "idempotency_key": idempotency_key or secrets.token_hex(16),
        }
        submitted = self.connection.request("POST", "/v1/jobs", body=body, repeatable=True)
        return Job(self, submitted["job"])

    def job(self, id: Union[str, int]) -> "Job":
        """A job by its number."""
        job = Job(self, str(id))
        job.refresh()
        return job

    def jobs(self, **filters: Any) -> Iterator[dict[str, Any]]:
        """Jobs as the server describes them, by default those that have not ended; all pages, one after the other."""
        cursor = None
        while True:
            page = self.connection.request("GET", "/v1/jobs", {**filters, "cursor": cursor})
            yield from page["items"]
            cursor = page.get("next")
            if not cursor:
                return

    def gpus(self) -> list[dict[str, Any]]:
        """The GPUs and who uses them."""
        return list(self.connection.request("GET", "/v1/gpus"))

    def cancel(self, selector: Union[str, int], now: bool = False) -> int:
        """Cancels jobs or tasks (`412`, `3-7`, `412.train[3]`); gives how many tasks that changed."""
        return int(self.connection.request("POST", f"/v1/jobs/{selector}/cancel", {"now": now or None})["tasks"])


class Job:
    """A submitted job. What is known of it is from when it was last asked for (`refresh`)."""

    def __init__(self, client: Client, id: str) -> None:
        self.client = client
        self.id = id
        self._view: Optional[dict[str, Any]] = None

    def __repr__(self) -> str:
        return f"<Job {self.id}>" if self._view is None else f"<Job {self.id} {self.name}: {self.outcome or self.state}>"

    def refresh(self) -> dict[str, Any]:
        """Asks for the job again and gives it as the server describes it."""
        self._view = self.client.connection.request("GET", f"/v1/jobs/{self.id}")
        return self._view

    @property
    def view(self) -> dict[str, Any]:
        """The job as the server last described it."""
        return self._view or self.refresh()

    @property
    def name(self) -> str:
        return str(self.view["name"])

    @property
    def state(self) -> str:
        """`blocked`, `ready`, `running`, `paused`, `stopping` or `done`."""
        return str(self.view["state"])

    @property
    def outcome(self) -> Optional[str]:
        """`succeeded`, `failed`, `timed-out`, `cancelled`, `lost` or `skipped`; none before it has ended."""
        return self.view.get("outcome")

    def wait(self, timeout: Optional[float] = None, check: bool = False) -> "Job":
        """Waits until the job has ended. Raises `TimeoutError` after `timeout` seconds, and with `check` `JobFailed`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _LONGEST_WAIT if deadline is None else min(_LONGEST_WAIT, max(0.0, deadline - time.monotonic()))
            query = {"wait": "done", "timeout": f"{int(left * 1000)}ms"}
            self._view = self.client.connection.request("GET", f"/v1/jobs/{self.id}", query, wait=left)
            if self._view["state"] == "done":
                break
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"job {self.id} has not ended within {timeout:g} s; it is {self.state}")
        if check and self.outcome != "succeeded":
            raise JobFailed(self, str(self.outcome), self._reason())
        return self

    def _reason(self) -> str:
        for task in self.view.get("tasks", ()):
            if task.get("outcome") not in (None, "succeeded"):
                code = task.get("exit_code")
                return f" (task {task['name']}: exit code {code})" if code is not None else f" (task {task['name']})"
        return ""

    def logs(self, follow: bool = False, **which: Any) -> Iterator[str]:
        """The log line by line; with `follow` until the task ends. `task`, `index`, `attempt` and `stream` say which."""
        pending = b""
        for chunk in self.client.connection.stream(f"/v1/jobs/{self.id}/logs", {**which, "follow": follow or None}):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                yield line.decode(errors="replace")
        if pending:
            yield pending.decode(errors="replace")

    def cancel(self, now: bool = False) -> int:
        """Cancels the job, with `now` without its grace period; gives how many tasks that changed."""
        return self.client.cancel(self.id, now)

    def why(self) -> dict[str, Any]:
        """Why the job waits and when it is expected to start, or how it ended."""
        return dict(self.client.connection.request("GET", f"/v1/jobs/{self.id}/why"))


def _inheritable(environ: Mapping[str, str]) -> dict[str, str]:
    def belongs(name: str) -> bool:
        return name not in _NOT_INHERITED | _OF_THIS_TASK and not name.startswith(_NOT_INHERITED_PREFIXES)

    return {name: value for name, value in environ.items() if belongs(name)}


_default: Optional[Client] = None


def default_client() -> Client:
    """The client the module's functions use: found at the first call, then kept."""
    global _default
    if _default is None:
        _default = Client()
    return _default


def submit(command: Optional[Command] = None, **arguments: Any) -> Job:
    """Submits to the server that the environment leads to; see `Client.submit`."""
    return default_client().submit(command, **arguments)


def wait(job: Union[Job, str, int], timeout: Optional[float] = None, check: bool = False) -> Job:
    """Waits until a job has ended; see `Job.wait`."""
    return _handle(job).wait(timeout, check)


def logs(job: Union[Job, str, int], follow: bool = False, **which: Any) -> Iterator[str]:
    """The log of a job, line by line; see `Job.logs`."""
    return _handle(job).logs(follow, **which)


def cancel(job: Union[Job, str, int], now: bool = False) -> int:
    """Cancels a job, or the jobs and tasks a selector names."""
    return job.cancel(now) if isinstance(job, Job) else default_client().cancel(job, now)


def _handle(job: Union[Job, str, int]) -> Job:
    return job if isinstance(job, Job) else Job(default_client(), str(job))


__all__ = [
    "Client", "Job", "JobFailed", "Refused", "cancel", "default_client", "logs", "submit", "wait",
]
