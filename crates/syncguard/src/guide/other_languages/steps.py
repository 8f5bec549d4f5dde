# Run it as: python3 steps.py KEY STEP...
import json
import os
import subprocess
import sys


def syncguard(*arguments, lock=""):
    """Runs the command with the lock as its input, and returns its output."""
    command = ["syncguard", *arguments]
    return subprocess.run(command, input=lock, stdout=subprocess.PIPE, text=True, check=True).stdout


class Lock:
    def __init__(self, key):
        self.line = syncguard("acquire", key, "--no-wait", "--ttl", "1m", "--json")
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


try:
    with Lock(sys.argv[1]) as lock:
        for step in sys.argv[2:]:
            # Another minute for this step.
            lock.extend()
            subprocess.run(step, shell=True, check=True, env={**os.environ, "FENCE": lock.fence})
except subprocess.CalledProcessError as error:
    sys.exit(error.returncode)
