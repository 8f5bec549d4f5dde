# Run it as: python3 run.py KEY COMMAND...
import subprocess
import sys

# Between two pairs of dashes, a key that begins with a dash is no option.
words = ["--", sys.argv[1], "--", *sys.argv[2:]]
status = subprocess.run(["syncguard", "run", "--no-wait", *words]).returncode
if status == 75:
    print("another process does the work", file=sys.stderr)
elif status == 76:
    print("the lock was lost, and the work was ended", file=sys.stderr)
sys.exit(status)
