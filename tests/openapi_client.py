"""Uses a client generated from the description of the interface: submits, waits, reads the log, and is refused."""

import sys
import time

from generated import AuthenticatedClient
from generated.api.default import get_gpus, get_jobs, get_jobs_id, get_jobs_id_logs, post_jobs
from generated.models import JobOrder, OneTaskJob, Outcome, ProblemBody, State, StateFilter, SubmitReply, SubmitRequest

url, token = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=token, raise_on_unexpected_status=True)


def submit(**fields):
    return post_jobs.sync(client=client, body=SubmitRequest(doc=OneTaskJob(**fields)))


submitted = submit(name="hello", command="echo hello from a generated client", gpus=1, timeout="10m")
assert isinstance(submitted, SubmitReply), submitted

deadline = time.monotonic() + 60
while True:
    job = get_jobs_id.sync(submitted.job, client=client, wait="done", timeout="4s")
    if job.state == State.DONE:
        break
    assert time.monotonic() < deadline, job
assert job.outcome == Outcome.SUCCEEDED, job
[task] = job.tasks
assert (task.exit_code, task.attempts[0].exit_code) == (0, 0), task
assert get_jobs_id_logs.sync(submitted.job, client=client) == "hello from a generated client\n"

listed = get_jobs.sync(client=client, all_=True, order=JobOrder.NEWEST, state=StateFilter.SUCCEEDED)
assert [job.job for job in listed.items] == [submitted.job], listed
assert [gpu.type_ for gpu in get_gpus.sync(client=client)] == ["V100", "V100"]

refused = submit(command="true", gpus=99)
assert isinstance(refused, ProblemBody) and refused.code == "too-few-gpus", refused
print(f"a generated client ran job {submitted.job}")
