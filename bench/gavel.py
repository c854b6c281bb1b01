#!/usr/bin/env python3
"""Gavel's own max-min policy and ours on the same instances, in one run.

    bench/gavel.py GAVEL [path to warpyard] [solver]

GAVEL is a checkout of https://github.com/stanford-futuredata/gavel, of which scheduler/policies is imported; it needs cvxpy
and a solver it knows (the checkout's default is ECOS). The instances are drawn: jobs whose throughput rows all differ, on
an eighth as many GPUs of each of three types, 1 to 8 GPUs wide. Reported: seconds of each solve (ours: the solve alone, as
`allocate --json` says; Gavel's: `get_allocation`) and the ratio. What the worst-off job gets is not compared: versions of
Gavel measure a job's speed against different allocations; the oracles in the tests do that.
"""
import json, os, random, subprocess, sys, tempfile, time

gavel = sys.argv[1]
binary = sys.argv[2] if len(sys.argv) > 2 else "target/dist/warpyard"
solver = sys.argv[3] if len(sys.argv) > 3 else "ECOS"
sys.path.append(os.path.join(gavel, "scheduler", "policies"))
from max_min_fairness import MaxMinFairnessPolicyWithPerf  # noqa: E402

TYPES = ["k80", "p100", "v100"]


def instance(n):
    draw = random.Random(n)
    jobs = []
    for number in range(n):
        base = 0.5 + 50 * draw.random()
        row = [base * (1 + j) * (0.5 + 2 * draw.random()) for j in range(len(TYPES))]
        jobs.append({"id": number, "scale_factor": draw.choice([1, 1, 1, 2, 4, 8]), "priority_weight": 1.0, "throughputs": row})
    return {"worker_types": TYPES, "num_workers": [max(8, n // 8)] * len(TYPES), "jobs": jobs}


def theirs(instance):
    jobs = instance["jobs"]
    speeds = {job["id"]: dict(zip(TYPES, job["throughputs"])) for job in jobs}
    widths = {job["id"]: job["scale_factor"] for job in jobs}
    weights = {job["id"]: job["priority_weight"] for job in jobs}
    policy = MaxMinFairnessPolicyWithPerf(solver)
    began = time.perf_counter()
    policy.get_allocation(speeds, widths, weights, dict(zip(TYPES, instance["num_workers"])))
    return time.perf_counter() - began


def ours(instance):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(instance, file)
        file.flush()
        command = [binary, "--json", "allocate", "--instance", file.name, "--policy", "max-min"]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["seconds"]


print(f"{'jobs':>6}  {'gavel (s)':>10}  {'ours (s)':>10}  {'ratio':>8}")
for n in [128, 512, 2048]:
    made = instance(n)
    they, we = theirs(made), ours(made)
    print(f"{n:>6}  {they:>10.4f}  {we:>10.6f}  {they / we:>7.0f}x")
