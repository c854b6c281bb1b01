#!/usr/bin/env python3
"""How fast the pages are: the first byte and the size of each with 1,000 tasks queued; how soon a change reaches an open
page; what 200 open pages with 100 changes a second cost the server, and whether they slow planning; and the same first
bytes with 10,000 jobs queued and 10,000 ended, with what that costs a browser (bench/pages.mjs, where WARPYARD_BROWSER
says where playwright-core is).

usage: bench/pages.py WARPYARD [--seconds S] [--many N]
Pages are played by a client of its own that does what their script does (one stream, and the part asked for again when
something changed, as often as the script does)."""
import argparse, asyncio, http.client, json, multiprocessing, os, re, statistics, subprocess, tempfile, time, urllib.request

PAGES = ["/", "/queue", "/finished", "/jobs/1", "/new", "/cluster", "/policies", "/what-if", "/docs"]


class Server:
    def __init__(self, program):
        self.data = tempfile.mkdtemp(prefix="warpyard-pages-")
        args = [program, "up", "--data", self.data, "--listen", "127.0.0.1:0", "--gpus", "fake:8xV100:16GiB", "--json"]
        self.process = subprocess.Popen(args, stdout=subprocess.PIPE, text=True)
        self.url = json.loads(self.process.stdout.readline())["url"]
        self.host, port = self.url.removeprefix("http://").split(":")
        self.port = int(port)
        self.token = open(os.path.join(self.data, "token")).read().strip()

    def ask(self, method, path, body=None):
        request = urllib.request.Request(self.url + path, method=method, data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return answer.read()

    def submit(self, **doc):
        return json.loads(self.ask("POST", "/v1/jobs", {"doc": doc, "user": "ann", "workdir": "/"}))["job"]

    def cpu(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def plans(self):
        text = self.ask("GET", "/metrics").decode()
        find = lambda name: float(re.search(rf"^{name} (\S+)$", text, re.M).group(1))
        return find("warpyard_plan_seconds_sum"), find("warpyard_plan_seconds_count")

    def stop(self):
        self.ask("POST", "/v1/shutdown", {"kill_tasks": True})
        self.process.wait()


def first_bytes(server, pages=PAGES):
    print("page          first byte (median, worst of 20)   page      with assets (gzip)")
    for page in pages:
        times, size, sent = [], 0, 0
        for _ in range(20):
            connection = http.client.HTTPConnection(server.host, server.port)
            connection.connect()
            began = time.perf_counter()
            connection.request("GET", page, headers={"Authorization": f"Bearer {server.token}"})
            answer = connection.getresponse()
            times.append(time.perf_counter() - began)
            body = answer.read()
            size = len(body)
        total = 0
        for path in [page, *set(re.findall(r'(?:src|href)="(/assets/[^"]+)"', body.decode()))]:
            connection = http.client.HTTPConnection(server.host, server.port)
            connection.request("GET", path, headers={"Authorization": f"Bearer {server.token}", "Accept-Encoding": "gzip"})
            total += len(connection.getresponse().read())
        print(f"{page:<13} {statistics.median(times) * 1e3:6.1f} ms {max(times) * 1e3:6.1f} ms            {size / 1e3:6.1f} kB  {total / 1e3:6.1f} kB")


class OpenPage:
    """Does what assets/live.js does."""
    def __init__(self, server, path):
        self.server, self.path, self.wanted, self.seen, self.parts, self.took = server, path, 0, 0, 0, 0.0
        self.changed = asyncio.Event()
        self.shown = {}

    async def listen(self):
        reader, writer = await asyncio.open_connection(self.server.host, self.server.port, limit=1 << 20)
        writer.write(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.server.token}\r\n\r\n".encode())
        while line := await reader.readline():
            if line.startswith(b"id: "):
                self.wanted = int(line[4:])
                self.changed.set()

    async def show(self):
        reader, writer = await asyncio.open_connection(self.server.host, self.server.port, limit=1 << 20)
        last = 0.0
        while True:
            await self.changed.wait()
            rest = min(0.5, max(0.06, 6 * self.took)) - (time.perf_counter() - last)
            if rest > 0:
                await asyncio.sleep(rest)
            self.changed.clear()
            began = time.perf_counter()
            head = f"GET {self.path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.server.token}\r\nAccept-Encoding: gzip\r\nx-warpyard-part: {self.wanted}\r\n\r\n"
            writer.write(head.encode())
            await read_answer(reader)
            self.parts += 1
            last = time.perf_counter()
            self.took = last - began


async def read_answer(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    if length := re.search(rb"content-length: (\d+)", head, re.I):
        return await reader.readexactly(int(length.group(1)))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


def changes(host, port, token, job, rate, seconds, made):
    """Changes something so many times a second. In a process of its own: playing many pages leaves no time for it."""
    connection = http.client.HTTPConnection(host, port)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    end, due, count = time.perf_counter() + seconds, time.perf_counter(), 0
    while time.perf_counter() < end:
        connection.request("POST", f"/v1/jobs/{job}/priority", json.dumps({"priority": count % 7}), headers)
        connection.getresponse().read()
        count += 1
        due += 1 / rate
        time.sleep(max(0, due - time.perf_counter()))
    made.put(count / seconds)


async def load(server, job, pages, seconds):
    opened = [OpenPage(server, ["/", "/queue", f"/jobs/{job}", "/queue?q=train"][i % 4]) for i in range(pages)]
    tasks = [asyncio.create_task(part) for page in opened for part in (page.listen(), page.show())]
    await asyncio.sleep(1.0 if pages else 0.1)
    (sum0, n0), cpu0, began = await asyncio.to_thread(server.plans), server.cpu(), time.perf_counter()
    made = multiprocessing.Queue()
    changing = multiprocessing.Process(target=changes, args=(server.host, server.port, server.token, job, 100, seconds, made))
    changing.start()
    rate = await asyncio.to_thread(made.get)
    changing.join()
    wall, cpu = time.perf_counter() - began, server.cpu() - cpu0
    sum1, n1 = await asyncio.to_thread(server.plans)
    for task in tasks:
        task.cancel()
    parts = sum(page.parts for page in opened)
    plan = (sum1 - sum0) / max(1, n1 - n0)
    print(f"{pages:4} pages: {rate:5.0f} changes/s, {parts / wall:6.0f} parts/s, server {cpu / wall:4.2f} cores, plan {plan * 1e6:6.0f} µs")
    return plan


async def reached(server, jobs):
    """From the answer to a change until a page that is open has the part that shows it."""
    page = OpenPage(server, "/queue")
    tasks = [asyncio.create_task(page.listen()), asyncio.create_task(page.show())]
    await asyncio.sleep(1)
    times = []
    for i in range(30):
        before = page.parts
        began = time.perf_counter()
        await asyncio.to_thread(server.ask, "POST", f"/v1/jobs/{jobs[i % len(jobs)]}/priority", {"priority": i + 10})
        while page.parts == before:
            await asyncio.sleep(0.001)
        times.append(time.perf_counter() - began)
        await asyncio.sleep(0.3)
    for task in tasks:
        task.cancel()
    print(f"a change reaches an open page: median {statistics.median(times) * 1e3:.0f} ms, worst of 30 {max(times) * 1e3:.0f} ms (asked for, committed, told, fetched)")


def many(server, count):
    """So many queued and so many that are over."""
    connection = http.client.HTTPConnection(server.host, server.port)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    jobs = []
    for i in range(2 * count):
        doc = {"name": f"sweep-{i}", "command": "sleep 3600", "gpus": 1, "timeout": "2h", "priority": -1}
        connection.request("POST", "/v1/jobs", json.dumps({"doc": doc, "user": ["ann", "bob", "carl"][i % 3], "workdir": "/"}), headers)
        jobs.append(json.loads(connection.getresponse().read())["job"])
    for at in range(0, count, 500):
        server.ask("POST", f"/v1/jobs/{jobs[at]}-{jobs[min(at + 499, count - 1)]}/cancel")
    print(f"{count} queued and {count} ended:")
    first_bytes(server, ["/", "/queue", "/queue?q=sweep-1", "/queue?sort=-name&page=100", "/finished", "/finished?q=sweep-1", "/finished?page=200", "/policies"])
    if os.environ.get("WARPYARD_BROWSER"):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pages.mjs")
        subprocess.run(["node", script, server.url, server.token], check=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--many", type=int, default=10_000)
    given = parser.parse_args()
    server = Server(given.program)
    try:
        jobs = [server.submit(name=f"train-{i}", command="sleep 3600", gpus=1, timeout="2h") for i in range(1008)]
        print(f"load {os.getloadavg()[0]:.1f}")
        first_bytes(server)
        asyncio.run(reached(server, jobs[-5:]))
        alone = asyncio.run(load(server, jobs[-1], 0, given.seconds))
        crowd = asyncio.run(load(server, jobs[-1], 200, given.seconds))
        print(f"plan latency ratio {crowd / alone:.2f}; load {os.getloadavg()[0]:.1f}")
        if given.many:
            many(server, given.many)
    finally:
        server.stop()


main()
