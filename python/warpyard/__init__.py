"""The Python package of warpyard: submit jobs from a program, and speak to the server from inside a task.

From a program:

    import warpyard

    job = warpyard.submit(["python", "train.py"], gpus=1, gpu_memory="6GiB", timeout="2h")
    for line in job.logs(follow=True):
        print(line)
    job.wait(check=True)

    @warpyard.task(gpus=1)
    def train(rate):
        ...
        return accuracy

    accuracies = train.map([0.1, 0.01]).result()   # two tasks of one job

From inside a task:

    for step in range(load_checkpoint(), 10_000):
        train(step)
        if warpyard.progress(step + 1):  # a more urgent job waits for this GPU
            save_checkpoint(step + 1)
            warpyard.leave()

Outside a task the latter does nothing, so that a script runs alike wherever it is started. `warpyard.aio` has the same for
asyncio, `warpyard.torch` runs PyTorch models as jobs. Server and identity are found as the command line finds them.
"""

from .client import Client, Job, JobFailed, cancel, default_client, logs, submit, wait
from .connection import NotTheServer, Refused, ServerNotFound, WarpyardError
from .function import Call, Function, RemoteError, task
from .inside import GIVE_WAY, in_task, leave, progress, restarted

__version__ = "0.1.0"

__all__ = [
    "GIVE_WAY",
    "Call",
    "Client",
    "Function",
    "Job",
    "JobFailed",
    "NotTheServer",
    "Refused",
    "RemoteError",
    "ServerNotFound",
    "WarpyardError",
    "cancel",
    "default_client",
    "in_task",
    "leave",
    "logs",
    "progress",
    "restarted",
    "submit",
    "task",
    "wait",
]
