#!/bin/sh
# Run it as: ./agent.sh STEP... Each step is a command line of an agent, and ends within ten minutes.
set -eu
lock=$(mktemp -u)
syncguard acquire repo:main --wait 5m --holder agent-7 --note "ticket 4711" --save "$lock"
trap 'syncguard release --from "$lock"' EXIT
for step in "$@"; do
    # Another ten minutes for this step. If the lock is lost, this ends the script with status 76.
    syncguard extend --from "$lock"
    sh -c "$step"
done
