# Run it as: sh steps.sh KEY STEP...
key=$1
shift
lock=$(syncguard acquire "$key" --no-wait --ttl 1m --json) || exit
FENCE=$(printf '%s' "$lock" | sed 's/.*"fence":"\([0-9]*\)".*/\1/')
export FENCE
release() { printf '%s' "$lock" | syncguard release --from - >/dev/null; }
# After a failed step the script ends with the status of the step.
trap release EXIT
for step in "$@"; do
    # Another minute for this step.
    extended=$(printf '%s' "$lock" | syncguard extend --from - --ttl 1m) || exit
    lock=$extended
    sh -c "$step" || exit
done
trap - EXIT
release
