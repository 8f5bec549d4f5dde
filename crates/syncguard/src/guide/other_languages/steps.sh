# Run it as: sh steps.sh KEY STEP...
key=$1
shift
lock=
end() {
    trap '' HUP INT TERM
    # A step that still runs ends first, with its process group.
    { kill -- "-${!-}" || kill "$!"; wait "$!"; } 2>/dev/null
    [ -z "$lock" ] || printf '%s' "$lock" | syncguard release --from - >/dev/null
}
# After a failed step or a signal the script ends with that status.
trap end EXIT
trap 'exit 143' HUP INT TERM
lock=$(syncguard acquire --no-wait --ttl 1m --json -- "$key") || exit
FENCE=$(printf '%s' "$lock" | sed 's/.*"fence":"\([0-9]*\)".*/\1/')
export FENCE
for line in "$@"; do
    # Another minute for this step.
    extended=$(printf '%s' "$lock" | syncguard extend --from - --ttl 1m) || exit
    lock=$extended
    # Less than the minute, and in a process group of its own. In the background, since a shell hears no signal while
    # it waits for a command.
    timeout -k 5s 50s sh -c "$line" &
    wait "$!" || exit
done
trap - EXIT
end
