"""A server of the real binary with declared GPUs, and its surroundings, for the tests of the package."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import warpyard

BINARY = os.environ["WARPYARD_BIN"]
PACKAGE = str(Path(__file__).resolve().parent.parent)


class ServerTest(unittest.TestCase):
    """Tests against one server, started for the class."""

    #: More arguments of `warpyard up`.
    UP: list[str] = []

    @classmethod
    def setUpClass(cls) -> None:
        # Short, since a socket's path has little room.
        cls.place = Path(tempfile.mkdtemp(prefix="wy-", dir="/tmp"))
        cls.data = cls.place / "data"
        command = [BINARY, "up", "--listen", "127.0.0.1:0", "--data", str(cls.data), "--gpus", "fake:1xV100:16GiB", *cls.UP]
        cls.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        cls.url = ""
        for line in cls.server.stdout:
            if " at http" in line:
                cls.url = line.split()[-1]
            if line.lstrip().startswith("try"):
                break
        assert cls.url, "the server did not start"
        cls.client = warpyard.Client(data=str(cls.data))
        cls.work = cls.place / "work"
        cls.work.mkdir()

    @classmethod
    def tearDownClass(cls) -> None:
        try:
            cls.client.cancel("all", now=True)
        except warpyard.Refused:
            pass  # everything has ended
        cls.client.connection.close()
        cls.server.send_signal(signal.SIGTERM)
        cls.server.wait(30)
        cls.server.stdout.close()
        shutil.rmtree(cls.place)

    def submit(self, command, **fields):
        return self.client.submit(command, workdir=self.work, **fields)

    def python(self, script: str, **fields):
        """Submits a Python script that can import the package."""
        return self.submit([sys.executable, "-c", script], env={"PYTHONPATH": PACKAGE}, **fields)
