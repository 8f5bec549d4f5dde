# Run it as: python3 run.py KEY COMMAND...
import subprocess
import sys

key, *command = sys.argv[1:]
status = subprocess.run(["syncguard", "run", "--no-wait", key, "--", *command]).returncode
if status == 75:
    print("another process does the work", file=sys.stderr)
elif status == 76:
    print("the lock was lost, and the work was ended", file=sys.stderr)
sys.exit(status)
