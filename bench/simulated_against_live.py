#!/usr/bin/env python3
"""200 real sleeping tasks on declared GPUs under three policies, and the simulation of the same arrivals.

    bench/simulated_against_live.py [path to warpyard] [jobs]

A trace is made from a seed and its jobs are submitted to a real server at the moments it says, each sleeping for as long as
it says. Then the trace is simulated with the moments at which the server really took the jobs and the lengths of the
sleeps; the time from a sleep's end to the next start is not known to a simulation, so the median from placing a task to
its process running and the median by which a task outlasts its sleep are measured from the live run's own log, stated,
and given to it. Reported: mean completion of both, the difference, and how many starts stand at the same place.
"""
import csv, io, json, os, statistics, subprocess, sys, tempfile, time

binary = sys.argv[1] if len(sys.argv) > 1 else "target/release/warpyard"
jobs = int(sys.argv[2]) if len(sys.argv) > 2 else 200
POLICIES = ["fifo", "sjf", "short-first"]


def run(*args, data=None):
    command = [binary, *args] + (["--data", data] if data else [])
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def live(policy, trace):
    directory = tempfile.TemporaryDirectory()
    data = os.path.join(directory.name, "data")
    up = subprocess.Popen(
        [binary, "up", "--data", data, "--gpus", "fake:8xV100:16GiB", "--listen", "127.0.0.1:0", "--policy", policy, "--cpus", "64"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    up.stdout.readline()
    began = time.monotonic() + 0.5
    submitted = []
    for row in trace:
        wait = began + float(row["submitted"]) - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        submitted.append(subprocess.Popen(
            [binary, "submit", "--data", data, "--json", "--gpus", row["gpus"], "--timeout", f"{float(row['timeout']) * 10:.3f}s",
             "--", "sleep", row["runs"]], stdout=subprocess.PIPE, text=True))
    numbers = [json.loads(each.communicate()[0])["job"] for each in submitted]
    run("wait", "all", data=data)
    recorded = json.loads(run("replay", "--json", "--per-job", data=data))
    own = list(csv.DictReader(io.StringIO(run("trace", "import", "--format", "warpyard", data))))
    run("down", data=data)
    up.wait()
    return dict(zip(numbers, trace)), recorded, own


def main():
    text = run("trace", "generate", "--jobs", str(jobs), "--seed", "5", "--gap", "100ms", "--lengths", "log-uniform:0.2,4",
               "--gpus", "1:0.8,2:0.2")
    trace = list(csv.DictReader(io.StringIO(text)))
    load = os.getloadavg()[0]
    print(f"{jobs} sleeping tasks, 8 declared GPUs, load {load:.1f}")
    for policy in POLICIES:
        by_number, recorded, own = live(policy, trace)
        # From the log: by how much a task outlasts its sleep, and how long after its submission or the end before it starts.
        over = statistics.median(float(row["runs"]) - float(by_number[row["job"]]["runs"]) for row in own)
        waits = [each["wait_s"] for each in recorded["recorded"]["per_job"]]
        delay = min(waits)
        for row in own:
            row["runs"] = str(float(by_number[row["job"]]["runs"]) + over)
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            writer = csv.DictWriter(file, own[0].keys())
            writer.writeheader()
            writer.writerows(own)
            file.flush()
            simulated = json.loads(run("sim", "--cluster", "8xV100:16GiB/8", "--trace", file.name, "--policy", policy,
                                       "--start-delay", f"{delay * 1000:.3f}ms", "--json", "--per-job"))
        order = lambda report: [each["job"] for each in sorted(report["per_job"], key=lambda each: each["started_s"])]
        real, ours = order(recorded["recorded"]), order(simulated)
        same = sum(a == b for a, b in zip(real, ours))
        a, b = recorded["recorded"]["average_completion_s"], simulated["average_completion_s"]
        replay = recorded["agreement"]
        print(f"{policy}: mean completion live {a:.3f} s, simulated {b:.3f} s ({(b / a - 1) * 100:+.2f} %); "
              f"{same} of {len(real)} starts at the same place; start delay {delay * 1000:.1f} ms, a task outlasts its sleep by "
              f"{over * 1000:.1f} ms; replayed from its log: {replay['same_place']} of {replay['starts']} at the same place, "
              f"off by {replay['max_start_error_s']} s at most")


main()
