# Run it as: python3 run.py KEY COMMAND...
import subprocess
import sys

# Behind the two dashes, a key that begins with a dash is no option.
status = subprocess.run(["syncguard", "run", "--no-wait", "--", *sys.argv[1:]]).returncode
if status == 75:
    print("another process does the work", file=sys.stderr)
elif status == 76:
    print("the lock was lost, and the work was ended", file=sys.stderr)
sys.exit(status)
