# Run it as: sh run.sh KEY COMMAND...
key=$1
shift
syncguard run --no-wait -- "$key" -- "$@"
status=$?
case $status in
75) echo "another process does the work" >&2 ;;
76) echo "the lock was lost, and the work was ended" >&2 ;;
esac
exit "$status"
