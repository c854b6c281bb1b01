#!/usr/bin/env python3
"""Measures a live server on this machine, beside its peers, in one run: prints a table in Markdown.

    bench/live.py [--tasks 10000] [--parallel 4] [--skip-peers] [--warpyard PATH]

It builds nothing but a virtual environment for the peers (outside the checkout), starts servers on loopback only, and
ends all it started.
"""

import argparse
import http.client
import json
import os
import pathlib
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = pathlib.Path(os.environ.get("WARPYARD_CACHE", pathlib.Path.home() / ".cache" / "warpyard"))


def built_binary():
    target = os.environ.get("CARGO_TARGET_DIR", str(CACHE / "target"))
    env = {**os.environ, "CARGO_TARGET_DIR": target}
    subprocess.run(["cargo", "build", "--profile", "dist", "--locked", "-q", "-p", "warpyard"], cwd=ROOT, env=env, check=True)
    return pathlib.Path(target) / "dist" / "warpyard"


class Server:
    """A server of our own, with its own data directory."""

    def __init__(self, binary, *flags):
        self.binary, self.flags = binary, flags
        self.dir = tempfile.mkdtemp(prefix="warpyard-bench-")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("WARPYARD_")}
        self.env["WARPYARD_DATA"] = self.dir
        self.start()

    def start(self):
        begun = time.perf_counter()
        self.process = subprocess.Popen(
            [self.binary, "up", "--listen", "127.0.0.1:0", *self.flags],
            env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        line = self.process.stdout.readline()  # printed once it answers
        assert "http://" in line, line
        self.start_seconds = time.perf_counter() - begun
        self.host = line.rsplit("http://", 1)[1].strip()
        self.token = pathlib.Path(self.dir, "token").read_text().strip()
        self.connection = http.client.HTTPConnection(self.host)

    def call(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        self.connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = self.connection.getresponse()
        text = answer.read()
        assert answer.status < 300, (answer.status, text)
        return json.loads(text) if text else None

    def submit(self, **doc):
        return self.call("POST", "/v1/jobs", {"doc": doc, "user": "bench", "workdir": "/"})["job"]

    def wait(self, job):
        while True:
            view = self.call("GET", f"/v1/jobs/{job}?wait=done&timeout=60s")
            if view["state"] == "done":
                return view

    def cli(self, *args):
        return subprocess.run([self.binary, *args], env=self.env, check=True, capture_output=True, text=True).stdout

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024

    def stop(self):
        subprocess.run([self.binary, "down", "--kill-tasks"], env=self.env, capture_output=True)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.dir, ignore_errors=True)


def bare_spawn(tasks, parallel):
    """What the machine can do at best: a loop that starts `true` and waits, so many at once."""
    begun = time.perf_counter()
    running = 0
    for _ in range(tasks):
        if running == parallel:
            os.wait()
            running -= 1
        os.posix_spawn("/bin/true", ["true"], {})
        running += 1
    for _ in range(running):
        os.wait()
    return tasks / (time.perf_counter() - begun)


def ours(binary, tasks, parallel):
    server = Server(binary, "--gpus", "none", "--cpus", str(parallel))
    try:
        begun = time.perf_counter()
        job = server.submit(name="empty", command=["/bin/true"], array=f"1-{tasks}")
        view = server.wait(job)
        seconds = time.perf_counter() - begun
        assert view["outcomes"]["succeeded"] == tasks, view
        return tasks / seconds
    finally:
        server.stop()


HYPERQUEUE = """
import sys, time
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
tasks, parallel = int(sys.argv[1]), int(sys.argv[2])
with LocalCluster() as cluster:
    cluster.start_worker(WorkerConfig(cores=parallel))
    client = cluster.client()
    job = Job()
    for _ in range(tasks):
        job.program(["/bin/true"], stdout=None, stderr=None)
    begun = time.perf_counter()
    client.wait_for_jobs([client.submit(job)])
    print(tasks / (time.perf_counter() - begun))
"""


def hyperqueue(tasks, parallel):
    venv = CACHE / "bench-venv"
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin" / "pip", "install", "-q", "hyperqueue"], check=True)
    with tempfile.TemporaryDirectory() as cwd:
        out = subprocess.run([python, "-c", HYPERQUEUE, str(tasks), str(parallel)], cwd=cwd, check=True,
                             capture_output=True, text=True).stdout
    return float(out.split()[-1])


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(len(values) * p))]


def latencies(binary, rounds):
    """From before the request to the task's own clock, and from that clock to the answer of a waiting caller."""
    server = Server(binary, "--gpus", "none", "--cpus", "4")
    starts, ends = [], []
    try:
        out = pathlib.Path(server.dir, "stamp")
        for _ in range(rounds):
            begun = time.time_ns()
            job = server.submit(name="stamp", command=["/bin/date", "+%s%N"], stdout=str(out))
            server.wait(job)
            seen = time.time_ns()
            stamp = int(out.read_text())
            starts.append((stamp - begun) / 1e6)
            ends.append((seen - stamp) / 1e6)
    finally:
        server.stop()
    return starts, ends


def phases(binary, rounds):
    """Where the time of an empty task goes, from the log and the attempt's own records; medians in milliseconds."""
    server = Server(binary, "--gpus", "none", "--cpus", "4")
    spans = {name: [] for name in ("schedule", "send", "start", "run", "report", "tell")}
    boot_offset = time.time_ns() / 1e3 - time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e3
    try:
        for _ in range(rounds):
            begun = time.time_ns() / 1e3
            job = server.submit(name="empty", command=["/bin/true"])
            server.wait(job)
            seen = time.time_ns() / 1e3
            attempt = pathlib.Path(server.dir, "attempts", f"{job}.0.0.1")
            exit = json.loads((attempt / "exit").read_text())
            taken = json.loads((attempt / "running").read_text().splitlines()[0])["supervisor"]["seen_us"] + boot_offset
            with sqlite3.connect(f"file:{server.dir}/log.db?mode=ro", uri=True) as log:
                events = [(at, json.loads(body)["what"]) for at, body in log.execute("SELECT at, body FROM event")]

            def moment(kind):
                return next(at for at, what in reversed(events) if kind in what)

            marks = [begun, moment("placed"), taken, exit["started_at"], exit["ended_at"], moment("ended"), seen]
            for name, a, b in zip(spans, marks, marks[1:]):
                spans[name].append((b - a) / 1e3)
    finally:
        server.stop()
    return {name: statistics.median(values) for name, values in spans.items()}


def million(binary):
    server = Server(binary, "--gpus", "fake:1xV100:16GiB", "--cpus", "2")
    try:
        blocker = server.submit(name="blocker", command=["sleep", "600"], gpus=1)
        begun = time.perf_counter()
        server.submit(name="million", command=["/bin/true"], array="1-1000000", gpus=1)
        accepted = time.perf_counter() - begun
        memory = server.memory_mib()
        server.call("POST", f"/v1/jobs/{blocker}/cancel")
        return accepted, memory
    finally:
        server.stop()


def upkeep(binary):
    """What the scheduler itself costs: (what, share of a core, MiB)."""
    rows = []
    server = Server(binary, "--gpus", "fake:100xV100:16GiB", "--cpus", "2")

    def sample(what, seconds=10):
        time.sleep(2)
        before = server.cpu_seconds()
        time.sleep(seconds)
        rows.append((what, (server.cpu_seconds() - before) / seconds, server.memory_mib()))

    try:
        sample("idle")
        running = server.submit(name="sleepers", command=["sleep", "900"], array="1-100", gpus=1)
        sample("100 running")
        for _ in range(100):
            server.submit(name="queued", command=["true"], array="1-1000", gpus=1)
        sample("100 running, 100,000 queued")
        server.cli("cancel", "--yes", "all")
        server.wait(running)
    finally:
        server.stop()
    return rows


def machine():
    model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "unknown CPU")
    return f"{os.cpu_count()} cores of {model}, Linux {os.uname().release}"


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--tasks", type=int, default=10_000)
    args.add_argument("--parallel", type=int, default=4)
    args.add_argument("--skip-peers", action="store_true")
    args.add_argument("--warpyard")
    args = args.parse_args()
    binary = args.warpyard or built_binary()

    print(f"{time.strftime('%Y-%m-%d')}, {machine()}, load {os.getloadavg()[0]:.1f}\n")
    bare = bare_spawn(args.tasks, args.parallel)
    mine = ours(binary, args.tasks, args.parallel)
    print(f"| empty tasks per second, {args.parallel} at once, {args.tasks:,} tasks | | floor |\n|---|---|---|")
    print(f"| warpyard | {mine:,.0f} | |")
    print(f"| bare posix_spawn loop | {bare:,.0f} (ours: {mine / bare:.0%}) | 50 % |")
    if not args.skip_peers:
        peer = hyperqueue(args.tasks, args.parallel)
        print(f"| HyperQueue LocalCluster | {peer:,.0f} (ours: {mine / peer:.1f}x) | 2x |")

    starts, ends = latencies(binary, 300)
    print("\n| latency, idle queue, 300 times | p50 | p99 | target |\n|---|---|---|---|")
    print(f"| request to the task's own clock | {statistics.median(starts):.1f} ms | {percentile(starts, .99):.1f} ms "
          "| 5 / 25 ms |")
    print(f"| the task's clock to the waiting caller | {statistics.median(ends):.1f} ms | {percentile(ends, .99):.1f} ms "
          "| 25 ms |")

    print("\n| an empty task, median of 100 | ms |\n|---|---|")
    words = {
        "schedule": "schedule: from the request to the decision where it runs",
        "send": "send: decision on disk, worker told, a supervisor has it",
        "start": "start: until its process runs",
        "run": "run: until its process and all it left are gone",
        "report": "report: until the server has it",
        "tell": "tell: on disk, and the waiting caller has the answer",
    }
    for name, ms in phases(binary, 100).items():
        print(f"| {words[name]} | {ms:.2f} |")

    accepted, memory = million(binary)
    print("\n| a million-task array | | target |\n|---|---|---|")
    print(f"| accepted in | {accepted * 1000:.0f} ms | 1 s |\n| server memory | {memory:.0f} MiB | 500 MB |")

    print("\n| upkeep | of one core | memory |\n|---|---|---|")
    for what, cpu, mib in upkeep(binary):
        print(f"| {what} | {cpu:.1%} | {mib:.0f} MiB |")


if __name__ == "__main__":
    main()
