#!/usr/bin/env python3
"""200 real sleeping tasks on declared GPUs under three policies, and the simulation of the same arrivals.

    bench/simulated_against_live.py [path to warpyard] [jobs]

A first task holds all GPUs while the others arrive at the moments a trace says, each to sleep for as long as it says; then
they run as the policy orders them, and what ends within a millisecond of something else changes nothing. The same arrivals
are then simulated, at the moments the server really took them, with one start delay for all: the mean of the live run, as
its log says. Once tasks run for as long as they were told to sleep, and once for as long as they really ran. Reported: mean
completion, the difference, and how many starts stand at the same place: the order in which tasks were placed, those that
begin when the first one ends counting as one moment.
"""
import csv, io, json, os, sqlite3, subprocess, sys, tempfile, time

binary = sys.argv[1] if len(sys.argv) > 1 else "target/dist/warpyard"
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
    own_log = sqlite3.connect(f"file:{data}/log.db?mode=ro", uri=True)
    placed, order, delays = {}, [], []
    for at, body in own_log.execute("SELECT at, body FROM event ORDER BY seq"):
        what = json.loads(body)["what"]
        if "placed" in what:
            placed[json.dumps(what["placed"]["attempt"])] = at
            order.append(what["placed"]["attempt"]["task"]["job"])
        elif "started" in what:
            delays.append((at - placed[json.dumps(what["started"]["attempt"])]) / 1e6)
    own = list(csv.DictReader(io.StringIO(run("trace", "import", "--format", "warpyard", data))))
    run("down", data=data)
    up.wait()
    return dict(zip(numbers, trace)), recorded, own, sum(delays) / len(delays), order


def simulate(rows, policy, delay):
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
        file.flush()
        return json.loads(run("sim", "--cluster", "8xV100:16GiB/8", "--trace", file.name, "--policy", policy,
                              "--start-delay", f"{delay * 1000:.3f}ms", "--json", "--per-job"))


def same_place(placed, report):
    """Compares the order of placing with that of the simulation, where equal delays keep it."""
    def one_moment(order):
        return order[:1] + sorted(order[1:9]) + order[9:]
    ours = [each["job"] for each in sorted(report["per_job"], key=lambda each: each["started_s"])]
    real, ours = one_moment(placed), one_moment(ours)
    return sum(a == b for a, b in zip(real, ours)), len(real)


def main():
    text = run("trace", "generate", "--jobs", str(jobs), "--seed", "5", "--gap", "50ms", "--lengths", "log-uniform:0.2,2")
    trace = list(csv.DictReader(io.StringIO(text)))
    held = float(trace[-1]["submitted"]) + 3
    trace[0].update(submitted="0", runs=str(held), timeout=str(held), gpus="8")
    load = os.getloadavg()[0]
    print(f"{jobs} sleeping tasks, 8 declared GPUs, load {load:.1f}")
    for policy in POLICIES:
        by_number, recorded, own, delay, placed = live(policy, trace)
        told = [dict(row, runs=by_number[row["job"]]["runs"]) for row in own]
        a = recorded["recorded"]["average_completion_s"]
        replay = recorded["agreement"]
        print(f"{policy}: live {a:.3f} s on average; start delay {delay * 1000:.1f} ms; replayed from its log: "
              f"{replay['same_place']} of {replay['starts']} starts at the same place, off by {replay['max_start_error_s']} s at most")
        for what, rows in [("as told to sleep", told), ("as long as they ran", own)]:
            report = simulate(rows, policy, delay)
            b = report["average_completion_s"]
            same, of = same_place(placed, report)
            print(f"  simulated, tasks {what}: {b:.3f} s ({(b / a - 1) * 100:+.2f} %), {same} of {of} starts at the same place")


main()
