#!/usr/bin/env python3
"""Draws docs/screen.svg from what the real program prints: docs/screen.py PATH/TO/warpyard

Starts the demonstration in a data directory of its own, runs three commands, and ends it again.
"""

import html
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

COMMANDS = [["gpus"], ["ps"], ["why", "6"]]
CHARACTER, LINE, MARGIN = 7.83, 18, 24


def transcript(binary):
    data = tempfile.mkdtemp(prefix="warpyard-screen-")
    env = {k: v for k, v in os.environ.items() if not k.startswith("WARPYARD_")} | {"WARPYARD_DATA": data}
    server = subprocess.Popen([binary, "up", "--demo", "--listen", "127.0.0.1:0"], env=env, stdout=subprocess.PIPE)
    try:
        server.stdout.readline()

        def say(args):
            return subprocess.run([binary, *args], env=env, check=True, capture_output=True, text=True).stdout

        while "everything" not in say(["ps"]):  # the last job of the demonstration
            time.sleep(0.1)
        time.sleep(1)
        for args in COMMANDS:
            yield "$ warpyard " + " ".join(args)
            yield from say(args).splitlines()
            yield ""
    finally:
        subprocess.run([binary, "down", "--kill-tasks"], env=env, capture_output=True)
        server.wait(30)
        shutil.rmtree(data, ignore_errors=True)


def draw(lines):
    width = max(map(len, lines)) * CHARACTER + 2 * MARGIN
    height = len(lines) * LINE + 2 * MARGIN
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
           f'viewBox="0 0 {width:.0f} {height}" role="img">')
    yield '<rect width="100%" height="100%" rx="8" fill="#14181d"/>'
    yield '<g font-family="ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="13" fill="#cfd6dd">'
    for i, line in enumerate(lines):
        colour = ' fill="#7fd1a0"' if line.startswith("$ ") else ""
        text = html.escape(line).replace(" ", "&#160;")
        yield f'<text x="{MARGIN}" y="{MARGIN + 12 + i * LINE}"{colour}>{text}</text>'
    yield "</g></svg>"


def main():
    lines = list(transcript(sys.argv[1]))
    while lines and not lines[-1]:
        lines.pop()
    target = pathlib.Path(__file__).with_name("screen.svg")
    target.write_text("\n".join(draw(lines)) + "\n")


if __name__ == "__main__":
    main()
