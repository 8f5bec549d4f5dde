#!/usr/bin/env python3
"""Records `syncguard watch` through a failover, as the animated picture of the guide's page on the command.

Needs the package pyte (pip install pyte), `syncguard` on the PATH, and an empty store in SYNCGUARD_STORE, such as
redis://localhost:6379. Takes half a minute.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from html import escape
from pathlib import Path

import pyte

PICTURE = Path(__file__).parents[2] / "crates/syncguard/src/guide/pictures/watch.svg"
COLUMNS, ROWS, SECONDS = 84, 8, 20
WIDTH, LINE, TOP, LEFT = 760, 20, 30, 20
CELL = (WIDTH - 2 * LEFT) / COLUMNS
# The names that pyte has for yellow and red.
COLORS = {"cdcd00": "#b58900", "cd0000": "#d1242f"}


def hold(holder, key, ttl, seconds):
    """Holds a lock for some seconds, in a process group of its own."""
    command = ["syncguard", "run", "--quiet", "--holder", holder, "--ttl", ttl, key, "--", "sleep", str(seconds)]
    return subprocess.Popen(command, start_new_session=True)


def watch():
    """Starts `syncguard watch` in a terminal of its own, and returns the process and the terminal."""
    process, terminal = pty.fork()
    if process == 0:
        command = ["syncguard", "watch", "--interval", "500ms"]
        os.execvpe("syncguard", command, os.environ | {"TERM": "xterm-256color"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    return process, terminal


def read(terminal, stream, until):
    """Feeds the screen with the output of the terminal for some time."""
    while (left := until - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            stream.feed(os.read(terminal, 65536).decode())


def frame(screen):
    """The lines of the screen as SVG."""
    lines = []
    for row in range(ROWS):
        spans, column = [], 0
        while column < COLUMNS:
            first = screen.buffer[row][column]
            style, start = (first.fg, first.bold), column
            while column < COLUMNS and (screen.buffer[row][column].fg, screen.buffer[row][column].bold) == style:
                column += 1
            text = "".join(screen.buffer[row][c].data for c in range(start, column))
            look = f' fill="{COLORS[first.fg]}"' if first.fg in COLORS else ""
            look += ' font-weight="600"' if first.bold else ""
            # HTML makes one space of several, so each part between them has its own place.
            for part in re.finditer(r"\S+(?: \S+)*", text):
                x = LEFT + (start + part.start()) * CELL
                length = len(part.group()) * CELL
                spans.append(f'<tspan x="{x:.1f}" textLength="{length:.1f}"{look}>{escape(part.group())}</tspan>')
        if spans:
            lines.append(f'<text y="{TOP + row * LINE}">{"".join(spans)}</text>')
    return "".join(lines)


def record():
    """Plays the scene, and returns a frame for each second."""
    leader = hold("web-1", "leader:reports", "5s", 90)
    time.sleep(0.5)
    started = [hold("web-2", "leader:reports", "5s", 90), hold("batch-7", "nightly:invoices", "30s", 90)]
    time.sleep(0.5)
    process, terminal = watch()
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    begun, frames = time.monotonic(), []
    for second in range(1, SECONDS + 1):
        if second == 4:
            started.append(hold("web-3", "pay:1017", "30s", 3))
        if second == 7:
            os.killpg(leader.pid, signal.SIGKILL)
        if second == 11:
            started.append(hold("web-2", "pay:1018", "30s", 4))
        read(terminal, stream, begun + second)
        frames.append(frame(screen))
    os.kill(process, signal.SIGINT)
    for one in started:
        one.terminate()
    return frames


def picture(frames):
    """All frames on top of each other; each is visible for a second. Without motion, the last one is."""
    height = TOP + ROWS * LINE
    share = 100 / len(frames)
    groups = "\n".join(
        f'<g class="sg-frame" style="animation-delay:{number}s">{lines}</g>' for number, lines in enumerate(frames)
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" style="max-width:100%;height:auto" role="img" font-family="ui-monospace, monospace" font-size="13" fill="currentColor">
<title>syncguard watch through a failover: web-1 is killed, its lock leader:reports is not renewed and turns red, expires, and passes on to web-2 with the next fence.</title>
<style>
.sg-frame {{ visibility: hidden; animation: sg-frames {len(frames)}s step-end infinite }}
@keyframes sg-frames {{ 0% {{ visibility: visible }} {share:g}% {{ visibility: hidden }} }}
@media (prefers-reduced-motion: reduce) {{
.sg-frame {{ animation: none }}
.sg-frame:last-of-type {{ visibility: visible }}
}}
svg:root {{ color: #1f2328 }}
svg:root .sg-paper {{ fill: #ffffff }}
@media (prefers-color-scheme: dark) {{
svg:root {{ color: #e6edf3 }}
svg:root .sg-paper {{ fill: #0d1117 }}
}}
</style>
<rect class="sg-paper" x="1" y="1" width="{WIDTH - 2}" height="{height - 2}" rx="8" fill="none" stroke="#8b949e"/>
{groups}
</svg>
"""


PICTURE.write_text(picture(record()))
