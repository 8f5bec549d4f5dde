# Run it as: python3 steps.py KEY STEP...
import contextlib
import json
import os
import signal
import subprocess
import sys


def syncguard(*arguments, lock=""):
    """Runs the command with the lock as its input, and returns its output."""
    command = ["syncguard", *arguments]
    return subprocess.run(command, input=lock, stdout=subprocess.PIPE, text=True, check=True).stdout


class Lock:
    def __init__(self, key):
        self.line = syncguard("acquire", "--no-wait", "--ttl", "1m", "--json", "--", key)
        self.fence = json.loads(self.line)["fence"]

    def extend(self):
        self.line = syncguard("extend", "--from", "-", "--ttl", "1m", lock=self.line)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            syncguard("release", "--from", "-", lock=self.line)
        except subprocess.CalledProcessError:
            # An error of the work is more important.
            if kind is None:
                raise


class Steps:
    """Runs one step after the other. A signal ends the step, and no other step begins."""

    process = None
    signal = None

    def end(self, number, _frame):
        self.signal = number
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)

    def run(self, step, fence):
        env = {**os.environ, "FENCE": fence}
        # Less than the minute, and in a process group of its own.
        command = ["timeout", "-k", "5s", "50s", "sh", "-c", step]
        self.process = subprocess.Popen(command, start_new_session=True, env=env)
        if self.signal is not None:
            self.end(self.signal, None)
        status = self.process.wait()
        self.process = None
        if self.signal is not None:
            status = 128 + self.signal
        if status != 0:
            raise subprocess.CalledProcessError(status, step)


steps = Steps()
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, steps.end)
try:
    with Lock(sys.argv[1]) as lock:
        for step in sys.argv[2:]:
            # Another minute for this step.
            lock.extend()
            steps.run(step, lock.fence)
except subprocess.CalledProcessError as error:
    sys.exit(error.returncode)
