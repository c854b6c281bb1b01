#!/usr/bin/env python3
"""What one person's flood of submissions does to another's.

One user submits jobs in a loop over one connection, without pause; another submits one now and then. How long the other
waits for each answer is measured with the flood and without it, in turns, so that whatever else the machine does falls on
both alike. The jobs ask for a GPU that a first job holds, so all of them wait in the queue, which grows to the end.

    bench/crowd.py [--warpyard target/release/warpyard] [--submissions 10000] [--rounds 10]
"""

import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path


class Caller:
    """A connection that stays open."""

    def __init__(self, port, token, user):
        self.connection = http.client.HTTPConnection("127.0.0.1", port)
        self.headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self.user = user

    def submit(self):
        doc = {"name": "waits", "command": ["true"], "gpus": 1, "timeout": "1h"}
        body = json.dumps({"user": self.user, "doc": doc})
        began = time.perf_counter()
        self.connection.request("POST", "/v1/jobs", body, self.headers)
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 201:
            sys.exit(f"refused: {answer.status} {text[:200]!r}")
        return time.perf_counter() - began


def waits_of(caller, count, pause):
    """The waits of someone who submits now and then."""
    waits = []
    for _ in range(count):
        waits.append(caller.submit())
        time.sleep(pause)
    return waits


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--warpyard", default="target/release/warpyard")
    args.add_argument("--submissions", type=int, default=10_000)
    args.add_argument("--rounds", type=int, default=10)
    args = args.parse_args()
    data = Path(tempfile.mkdtemp(prefix="warpyard-crowd-"))
    server = subprocess.Popen(
        [args.warpyard, "up", "--json", "--data", str(data), "--listen", "127.0.0.1:0", "--gpus", "fake:1xV100:16GiB"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        port = int(json.loads(server.stdout.readline())["url"].rsplit(":", 1)[1])
        token = (data / "token").read_text().strip()
        holder = Caller(port, token, "holder")
        doc = {"name": "holds", "command": ["sleep", "600"], "gpus": 1}
        body = json.dumps({"user": "holder", "doc": doc})
        holder.connection.request("POST", "/v1/jobs", body, holder.headers)
        holder.connection.getresponse().read()
        flood, other = Caller(port, token, "flood"), Caller(port, token, "other")
        waits_of(other, 20, 0.01)
        left, quiet, crowded, took = args.submissions, [], [], 0.0
        for at in range(args.rounds):
            quiet += waits_of(other, 40, 0.01)
            share = left // (args.rounds - at)
            left -= share
            ended = threading.Event()

            def pour(share=share, ended=ended):
                for _ in range(share):
                    flood.submit()
                ended.set()

            pouring, began = threading.Thread(target=pour), time.perf_counter()
            pouring.start()
            while not ended.is_set():
                crowded.append(other.submit())
                time.sleep(0.01)
            pouring.join()
            took += time.perf_counter() - began
    finally:
        subprocess.run([args.warpyard, "--data", str(data), "down", "--kill-tasks"], capture_output=True, check=False)
        server.wait(timeout=30)
    ms = lambda values, part: 1000 * statistics.quantiles(values, n=100)[part - 1]
    print(f"flood: {args.submissions} submissions in {took:.1f} s ({args.submissions / took:.0f}/s), load {os.getloadavg()[0]:.1f}")
    for name, part in (("median", 50), ("95 %", 95)):
        with_, without = ms(crowded, part), ms(quiet, part)
        print(f"{name:>7}: {without:.2f} ms alone, {with_:.2f} ms beside the flood ({with_ / without:.2f}x)")


if __name__ == "__main__":
    main()
