#!/bin/sh
# Run it as: ./agent.sh STEP... Each step is a command line of an agent, and has nine minutes.
set -eu
lock=$(mktemp)
end() {
    trap '' HUP INT TERM
    # What still runs ends first, a step with its process group.
    { kill -- "-${!-}" || kill "${!-}"; wait "${!-}"; } 2>/dev/null || :
    # An empty file is that of a lock that was not taken.
    [ ! -s "$lock" ] || syncguard release --from "$lock"
}
trap end EXIT
trap 'exit 143' HUP INT TERM
# In the background, since a shell hears no signal while it waits for a command.
background() {
    "$@" &
    wait "$!"
}
background syncguard acquire repo:main --wait 5m --holder agent-7 --note "ticket 4711" --save "$lock"
for step in "$@"; do
    # Another ten minutes for this step. If the lock is lost, this ends the script with status 76.
    syncguard extend --from "$lock"
    background timeout -k 10s 9m sh -c "$step"
done
