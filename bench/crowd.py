#!/usr/bin/env python3
"""What one person's flood of submissions does to another's.

One user submits jobs in a loop over one connection, without pause; another submits one now and then. How long the other
waits for each answer is measured with the flood and without it, in turns, so that whatever else the machine does falls on
both alike. The jobs ask for a GPU that a first job holds, so all of them wait in the queue, which grows to the end.

As root, each is an account of this machine that comes in through the socket of a shared server in a process of its own
(`--accounts`, two that are there already); otherwise both are names given with the token.

    bench/crowd.py [--warpyard target/dist/warpyard] [--submissions 10000] [--rounds 10] [--accounts games,news]
"""

import argparse
import http.client
import json
import multiprocessing
import os
import pwd
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


class ThroughSocket(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.host)


class Caller:
    """A connection that stays open."""

    def __init__(self, where, token, user):
        self.connection = ThroughSocket(where) if token is None else http.client.HTTPConnection("127.0.0.1", where)
        self.headers = {"content-type": "application/json"}
        if token is not None:
            self.headers["authorization"] = f"Bearer {token}"
        self.user = user

    def submit(self):
        doc = {"name": "waits", "command": ["true"], "gpus": 1, "timeout": "1h"}
        body = json.dumps({"user": self.user, "workdir": "/", "doc": doc})
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


def become(user):
    account = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)


def flood_of(where, token, user, accounts, pipe):
    """Submits as many as it is told to, as often as it is told."""
    if accounts:
        become(user)
    caller = Caller(where, token, user)
    while count := pipe.recv():
        for _ in range(count):
            caller.submit()
        pipe.send(count)


def other_of(where, token, user, accounts, pipe):
    """Submits now and then: so often, or until told to stop."""
    if accounts:
        become(user)
    caller = Caller(where, token, user)
    while count := pipe.recv():
        waits = []
        while len(waits) < count and not (count > 1000 and pipe.poll()):
            waits += waits_of(caller, 1, 0.01)
        if count > 1000:
            pipe.recv()
        pipe.send(waits)


def start(job, *args):
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=job, args=(*args, theirs), daemon=True)
    process.start()
    return ours


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--warpyard", default="target/dist/warpyard")
    args.add_argument("--submissions", type=int, default=10_000)
    args.add_argument("--rounds", type=int, default=10)
    args.add_argument("--accounts", default="games,news")
    args = args.parse_args()
    shared = os.geteuid() == 0
    data = Path(tempfile.mkdtemp(prefix="warpyard-crowd-"))
    data.chmod(0o755)
    command = [args.warpyard, "up", "--json", "--data", str(data / "d"), "--listen", "127.0.0.1:0", "--gpus", "fake:1xV100:16GiB"]
    if shared:
        command += ["--shared", "--socket", str(data / "run" / "socket")]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        port = int(json.loads(server.stdout.readline())["url"].rsplit(":", 1)[1])
        token = (data / "d" / "token").read_text().strip()
        users = args.accounts.split(",") if shared else ["flood", "other"]
        holder = Caller(port, token, users[0])
        body = json.dumps({"user": users[0], "workdir": "/", "doc": {"name": "holds", "command": ["sleep", "600"], "gpus": 1}})
        holder.connection.request("POST", "/v1/jobs", body, holder.headers)
        holder.connection.getresponse().read()
        where = (str(data / "run" / "socket"), None) if shared else (port, token)
        flood, other = start(flood_of, *where, users[0], shared), start(other_of, *where, users[1], shared)
        other.send(20)
        other.recv()
        left, quiet, crowded, took = args.submissions, [], [], 0.0
        for at in range(args.rounds):
            other.send(40)
            quiet += other.recv()
            share = left // (args.rounds - at)
            left -= share
            began = time.perf_counter()
            other.send(10**9)
            flood.send(share)
            flood.recv()
            took += time.perf_counter() - began
            other.send("enough")
            crowded += other.recv()
    finally:
        subprocess.run([args.warpyard, "--data", str(data / "d"), "down", "--kill-tasks"], capture_output=True, check=False)
        server.wait(timeout=30)
    ms = lambda values, part: 1000 * statistics.quantiles(values, n=100)[part - 1]
    how = f"accounts {users[0]} and {users[1]} through the socket" if shared else "two names with the token"
    print(f"{how}; {len(quiet)} and {len(crowded)} submissions of the other")
    print(f"flood: {args.submissions} submissions in {took:.1f} s ({args.submissions / took:.0f}/s), load {os.getloadavg()[0]:.1f}")
    for name, part in (("median", 50), ("95 %", 95)):
        with_, without = ms(crowded, part), ms(quiet, part)
        print(f"{name:>7}: {without:.2f} ms alone, {with_:.2f} ms beside the flood ({with_ / without:.2f}x)")


if __name__ == "__main__":
    main()
