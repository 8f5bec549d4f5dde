# For work by hand. The lock is in a variable of the shell, and in no file.
lock=$(syncguard acquire db:replica --no-wait --ttl 1h --note "rebuild by hand" --json) || exit
# The end of the shell gives the lock back, also when its terminal is closed.
trap 'printf "%s" "$lock" | syncguard release --from -' EXIT
trap 'exit 143' HUP TERM
# ... the work ...
extended=$(printf '%s' "$lock" | syncguard extend --from - --ttl 1h) || exit
lock=$extended
# ... more work ...
