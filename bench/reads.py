#!/usr/bin/env python3
"""What reading costs with many jobs queued: a page of the list, one job, why it waits, every web page and `warpyard ps`; the
memory of a queued job; and what 16 readers at 20 requests a second each do to submissions.

    bench/reads.py WARPYARD [--queued 1000,45000] [--times 200] [--seconds 10]

Jobs are not submitted one by one: a server takes one, and the log it leaves is continued with as many like it, of 20 users and
with names of their own, before a server is started from it. The first of them runs on the only GPU; the rest wait. Starts its
servers on loopback, with a data directory of their own, and ends them."""

import argparse
import http.client
import json
import os
import pathlib
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import threading
import time

PAGES = ["/", "/queue", "/queue?sort=name", "/queue?q=job-77", "/finished", "/jobs/LAST", "/new", "/cluster", "/policies",
         "/what-if", "/docs"]
USERS = 20


class Server:
    def __init__(self, program, data):
        self.program, self.data = program, data
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("WARPYARD_")} | {"WARPYARD_DATA": data}
        args = [program, "up", "--listen", "127.0.0.1:0", "--gpus", "fake:1xV100:16GiB", "--cpus", "4", "--json"]
        self.process = subprocess.Popen(args, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.host = json.loads(self.process.stdout.readline())["url"].removeprefix("http://")
        self.token = pathlib.Path(data, "token").read_text().strip()
        self.headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}

    def connect(self):
        return http.client.HTTPConnection(self.host)

    def ask(self, connection, method, path, body=None):
        connection.request(method, path, None if body is None else json.dumps(body), self.headers)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status < 300, (method, path, answer.status, text[:300])
        return text

    def submit(self, connection, n):
        doc = {"name": f"job-{n}", "command": ["sleep", "100000"], "gpus": 1, "timeout": "2h"}
        return self.ask(connection, "POST", "/v1/jobs", {"doc": doc, "user": f"user{n % USERS}", "workdir": "/"})

    def rss(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))

    def stop(self, kill):
        self.ask(self.connect(), "POST", "/v1/shutdown", {"kill_tasks": kill})
        self.process.wait(120)


def continue_log(data, count):
    """Has the log of a server that took one job go on with as many like it."""
    log = sqlite3.connect(os.path.join(data, "log.db"))
    log.execute("DELETE FROM snapshot")
    rows = log.execute("SELECT seq, at, body FROM event ORDER BY seq").fetchall()
    seq, at, event = next((s, a, json.loads(b)) for s, a, b in rows if "job_submitted" in json.loads(b)["what"])
    log.execute("DELETE FROM event WHERE seq > ?", [seq])

    def more():
        what = event["what"]["job_submitted"]
        first = int(what["job"])
        for n in range(1, count):
            what["job"], what["user"], what["spec"]["name"] = first + n, f"user{n % USERS}", f"job-{n}"
            yield seq + n, at, json.dumps(event).encode()

    log.executemany("INSERT INTO event (seq, at, body) VALUES (?, ?, ?)", more())
    log.commit()
    log.close()


def with_queue(program, count):
    data = tempfile.mkdtemp(prefix="warpyard-reads-")
    server = Server(program, data)
    server.submit(server.connect(), 0)
    server.stop(True)
    for name in os.listdir(data):
        if name.startswith("history.db"):
            os.remove(os.path.join(data, name))
    if count > 1:
        continue_log(data, count)
    return Server(program, data)


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(len(values) * p))]


def timed(times, budget, call):
    """How long calls took, in milliseconds: so many, or as many as the budget of seconds lets."""
    call()
    taken, began = [], time.perf_counter()
    while len(taken) < times and time.perf_counter() - began < budget:
        start = time.perf_counter()
        call()
        taken.append((time.perf_counter() - start) * 1e3)
    return taken


def first_line(server):
    """Until `warpyard ps` has printed its first line."""
    process = subprocess.Popen([server.program, "ps"], env=server.env, stdout=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    process.wait()


def reads(server, count, times, budget):
    connection, last = server.connect(), count
    paths = {
        "a page of 50 jobs": "/v1/jobs?limit=50",
        "the same as they will run": "/v1/jobs?limit=50&order=run",
        "the newest 50": "/v1/jobs?limit=50&order=newest",
        "50 of one user": "/v1/jobs?limit=50&user=user7",
        "one by its name": f"/v1/jobs?limit=50&name=job-{count - 1}",
        "50 that are blocked (none is)": "/v1/jobs?limit=50&state=blocked",
        "one job, the last": f"/v1/jobs/{last}",
        "why, of the last": f"/v1/jobs/{last}/why",
    }
    paths |= {f"page {page}": page.replace("LAST", str(last)) for page in PAGES}
    found = {}
    for name, path in paths.items():
        found[name] = timed(times, budget, lambda: server.ask(connection, "GET", path))
    found["`warpyard ps`, first line"] = timed(max(5, times // 10), budget, lambda: first_line(server))
    return found


def submissions(server, seconds, readers):
    """The waits of one who submits all the time, in milliseconds, while so many readers ask 20 times a second each."""
    ends = time.perf_counter() + seconds
    asked = ["/v1/jobs?limit=50", "/v1/jobs/500", "/v1/jobs/500/why", "/queue", "/"]

    def read(n):
        connection, due = server.connect(), time.perf_counter() + n / 320
        while due < ends:
            time.sleep(max(0, due - time.perf_counter()))
            server.ask(connection, "GET", asked[n % len(asked)])
            n, due = n + 1, due + 0.05
            done.append(1)

    done = []
    threads = [threading.Thread(target=read, args=[n]) for n in range(readers)]
    [thread.start() for thread in threads]
    connection, waits = server.connect(), []
    while time.perf_counter() < ends:
        start = time.perf_counter()
        server.submit(connection, 0)
        waits.append((time.perf_counter() - start) * 1e3)
        time.sleep(0.01)
    [thread.join() for thread in threads]
    return waits, len(done) / seconds


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("warpyard")
    args.add_argument("--queued", default="1000,45000")
    args.add_argument("--times", type=int, default=200)
    args.add_argument("--budget", type=float, default=10, help="seconds at most for each line of the table")
    args.add_argument("--seconds", type=int, default=10)
    args = args.parse_args()
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    counts, columns, empty = [int(n) for n in args.queued.split(",")], [], None
    for count in [1] + counts:
        server = with_queue(args.warpyard, count)
        try:
            time.sleep(2)
            rss = server.rss()
            if count == 1:
                empty = rss
                continue
            column = reads(server, count, args.times, args.budget)
            alone, _ = submissions(server, args.seconds, 0)
            beside, rate = submissions(server, args.seconds, 16)
            columns.append((count, column, (rss - empty) / count, alone, beside, rate))
        finally:
            server.stop(True)
            shutil.rmtree(server.data, ignore_errors=True)
    print("| p50 / p99, ms | " + " | ".join(f"{count:,} queued" for count, *_ in columns) + " | ratio of p50 |")
    print("|---" * (len(columns) + 2) + "|")
    for name in columns[0][1]:
        cells = [column[name] for _, column, *_ in columns]
        ratio = statistics.median(cells[-1]) / statistics.median(cells[0])
        each = " | ".join(f"{statistics.median(cell):.1f} / {percentile(cell, .99):.1f}" for cell in cells)
        print(f"| {name} | {each} | {ratio:.1f} |")
    both = lambda waits: f"{statistics.median(waits):.1f} / {percentile(waits, .99):.1f}"
    rows = {
        "with": [f"{count:,} queued" for count, *_ in columns],
        "---": ["---"] * len(columns),
        "bytes of memory for each queued job": [f"{memory:,.0f}" for _, _, memory, *_ in columns],
        "a submission, alone, p50 / p99 ms": [both(alone) for *_, alone, _, _ in columns],
        "beside 16 readers": [both(beside) for *_, beside, _ in columns],
        "requests a second they had answered, of 320": [f"{rate:.0f}" for *_, rate in columns],
    }
    print()
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
