"""The client: jobs from submission to end, what is refused, and whom it speaks to."""

import asyncio
import http.server
import json
import os
import socket
import sys
import tempfile
import threading
import unittest
from pathlib import Path

import warpyard
import warpyard.aio
from support import ServerTest
from warpyard.connection import Address, Connection, server_proof


class Jobs(ServerTest):
    def test_a_job_is_submitted_followed_and_waited_for(self):
        job = self.submit("echo one; echo two", name="words")
        self.assertEqual(list(job.logs(follow=True)), ["one", "two"])
        self.assertEqual((job.wait(30).outcome, job.name, job.state), ("succeeded", "words", "done"))
        self.assertEqual(self.client.job(job.id).outcome, "succeeded")

    def test_a_failed_job_says_so_where_that_is_checked(self):
        job = self.submit(["false"])
        self.assertEqual(job.wait(30).outcome, "failed")
        with self.assertRaises(warpyard.JobFailed) as failed:
            job.wait(check=True)
        self.assertIn("exit code 1", str(failed.exception))

    def test_a_wait_that_takes_too_long_ends_and_leaves_the_job_alone(self):
        job = self.submit(["sleep", "1000"])
        with self.assertRaises(TimeoutError):
            job.wait(0.1)
        self.assertEqual(job.cancel(now=True), 1)
        self.assertEqual(job.wait(30).outcome, "cancelled")

    def test_a_refusal_has_a_code_and_the_next_step(self):
        with self.assertRaises(warpyard.Refused) as refused:
            self.submit(["true"], gpu_memory="6")
        self.assertIn("6", str(refused.exception))
        self.assertEqual(refused.exception.status, 422)
        with self.assertRaises(warpyard.Refused) as refused:
            self.client.job(999_999)
        self.assertEqual((refused.exception.code, refused.exception.status), ("unknown-job", 404))
        self.assertIn("warpyard ps", refused.exception.help)

    def test_the_same_key_is_the_same_job(self):
        first, second = (self.submit(["true"], idempotency_key="once") for _ in range(2))
        self.assertEqual(first.id, second.id)

    def test_jobs_are_listed_page_after_page(self):
        held = [self.submit(["true"], name="listed", gpus=1, after=[self._blocker.id]).id for _ in range(5)]
        listed = [job["job"] for job in self.client.jobs(name="listed", limit=2)]
        self.assertEqual(sorted(listed), sorted(held))

    def test_a_task_has_the_environment_and_directory_it_was_submitted_with(self):
        os.environ["WY_TEST_INHERITED"] = "inherited"
        self.addCleanup(os.environ.pop, "WY_TEST_INHERITED")
        script = "echo $WY_TEST_INHERITED $WY_TEST_SET; pwd"
        job = self.client.submit(script, workdir=self.work, env={"WY_TEST_SET": "set"})
        self.assertEqual(list(job.logs(follow=True)), ["inherited set", str(self.work)])

    def test_many_waits_at_once(self):
        jobs = [self.submit(["true"]) for _ in range(3)] + [self.submit(["sleep", "0.1"]) for _ in range(30)]

        async def all_of_them():
            waits = (warpyard.aio.wait(job, 60) for job in jobs)
            return [job.outcome for job in await asyncio.gather(*waits)]

        self.assertEqual(asyncio.run(all_of_them()), ["succeeded"] * len(jobs))

    def test_a_log_is_followed_by_a_coroutine(self):
        job = self.submit("echo a; echo b")

        async def lines():
            return [line async for line in warpyard.aio.logs(job, follow=True)]

        self.assertEqual(asyncio.run(lines()), ["a", "b"])

    def test_a_connection_that_the_server_closed_is_made_again(self):
        self.client.gpus()
        self.client.connection._kept_connection().sock.shutdown(socket.SHUT_RDWR)
        self.assertEqual(len(self.client.gpus()), 1)
        self.client.connection._kept_connection().close()
        self.assertEqual(len(self.client.gpus()), 1)

    def test_through_a_port_the_server_proves_that_it_is_the_one(self):
        token = (self.data / "token").read_text().strip()
        through_port = Connection(Address(self.url, token))
        self.assertEqual(len(through_port.request("GET", "/v1/gpus")), 1)
        through_port.close()
        with self.assertRaises(warpyard.NotTheServer):
            Connection(Address(self.url, "x" * 64)).request("GET", "/v1/gpus")
        with self.assertRaises(warpyard.NotTheServer):
            Connection(Address(self.url)).request("GET", "/v1/gpus")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls._blocker = cls.client.submit(["sleep", "1000"], workdir=cls.work, name="blocker")


class Impostors(unittest.TestCase):
    def test_a_port_that_anyone_took_learns_nothing(self):
        wrong = json.dumps({"proof": server_proof("another token", "nonce", "host")}).encode()
        for body in (wrong, b"", b"\xff", b"[" * 100_000, b'{"proof": ["x"]}', '{"proof": "ü"}'.encode(), b" " * 10_000_000):
            with self.subTest(body[:20]):
                self.impostor_learns_nothing(200, body, warpyard.NotTheServer)
        # Where the first answer closes the connection, nobody has proved anything on another.
        self.impostor_learns_nothing(421, b"", warpyard.WarpyardError)

    def impostor_learns_nothing(self, status, body, raised):
        heard = []

        class Impostor(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                heard.append((self.path, self.headers.get("Authorization")))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    pass  # they have read enough

            def log_message(self, *_):
                pass

        with http.server.HTTPServer(("127.0.0.1", 0), Impostor) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_port}"
            with self.assertRaises(raised):
                Connection(Address(url, "t" * 64)).request("GET", "/v1/jobs")
            server.shutdown()
        self.assertTrue(heard)
        for path, authorization in heard:
            self.assertTrue(path.startswith("/v1/proof?"), path)
            self.assertIsNone(authorization)

    def test_a_token_that_another_user_could_have_put_there_is_not_used(self):
        with tempfile.TemporaryDirectory(dir="/tmp") as place:
            data = Path(place) / "between" / "data"
            data.mkdir(parents=True, mode=0o700)
            (data / "token").write_text("t" * 64)
            (data / "token").chmod(0o600)
            self.assertEqual(Address.find("http://127.0.0.1:1", str(data)).token, "t" * 64)
            data.parent.chmod(0o777)
            with self.assertRaises(warpyard.NotTheServer):
                Address.find("http://127.0.0.1:1", str(data))
            link = Path(place) / "link"
            link.symlink_to(data)
            with self.assertRaises(warpyard.NotTheServer):
                Address.find("http://127.0.0.1:1", str(link))

    @unittest.skipUnless(os.geteuid() == 0, "another user's socket takes root to make")
    def test_a_socket_of_another_user_is_not_spoken_to(self):
        with tempfile.TemporaryDirectory(dir="/tmp") as place:
            os.chmod(place, 0o777)
            path = f"{place}/socket"
            ready, says_ready = os.pipe()
            child = os.fork()
            if child == 0:
                os.setuid(65534)
                listener = socket.socket(socket.AF_UNIX)
                listener.bind(path)
                listener.listen()
                os.write(says_ready, b".")
                accepted, _ = listener.accept()
                os._exit(1 if accepted.recv(1) else 0)
            os.read(ready, 1)
            with self.assertRaises(warpyard.NotTheServer):
                Connection(Address(f"unix:{path}")).request("GET", "/v1/jobs")
            _, status = os.waitpid(child, 0)
            self.assertEqual(os.waitstatus_to_exitcode(status), 0, "nothing was sent")

    def test_without_a_server_it_says_how_to_start_one(self):
        with tempfile.TemporaryDirectory() as place, self.assertRaises(warpyard.ServerNotFound) as missing:
            Address.find(data=place)
        self.assertIn("warpyard up", str(missing.exception))


class Inside(ServerTest):
    UP = ["--policy", "wsjf:granularity=batch"]

    def test_progress_goes_through_the_socket_and_yields_when_asked(self):
        script = """
import os, sys, time, warpyard
if warpyard.restarted():
    sys.exit(0)
print("began", flush=True)
step = 0
while True:
    step += 1
    if warpyard.progress(step, every=0.02):
        warpyard.leave()
    time.sleep(0.01)
"""
        low = self.python(script, gpus=1, preempt="yield", steps=10)
        self.assertEqual(next(low.logs(follow=True)), "began")
        urgent = self.submit(["true"], gpus=1, priority=9)
        self.assertEqual(urgent.wait(60).outcome, "succeeded")
        self.assertEqual(low.wait(60).outcome, "succeeded")
        self.assertEqual(len(low.view["tasks"][0]["attempts"]), 2)

    def test_outside_a_task_nothing_is_reported(self):
        self.assertFalse(warpyard.in_task())
        self.assertFalse(warpyard.progress(1, every=0))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
