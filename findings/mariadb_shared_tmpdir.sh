#!/usr/bin/env bash
# MariaDB 10.11.19 (Debian's 1:10.11.19-0+deb12u1): a server that starts deletes the temporary tables of a server that runs, if
# both have the same tmpdir, as they have by default.
#
# Guess: servers with a data folder and a port each are independent. The names of temporary tables contain the process id, so
# that each server knows its own ones in a folder that all programs share, such as /tmp.
#
# What happens: at its start, a server deletes all files of tmpdir whose names begin like those of temporary tables, also the
# open ones of another server. There, a session goes on with the table that it has open, but to drop it fails with 1051, unknown
# table. mariadb-install-db starts such a server for a moment, and can be the one that loses: it then aborts. With a tmpdir for
# each server, nothing is lost.
source "$(dirname "$0")/common.sh"
mariadb
read -r -a port < <(ports 3)
mkdir shared own

serve() {
    serve_mariadb "${port[$1]}" "$1" "$2"
    await sql "$1" "SELECT 1"
}
sql() { "$usr/bin/mariadb" --no-defaults -h 127.0.0.1 -P "${port[$1]}" -N -B -e "$2" 2>&1; }
tables() { find "$folder/shared" -name '#sql-temptable*' | wc -l; }

serve 0 shared
sql 0 "CREATE DATABASE test" >/dev/null
mkfifo statements
touch answers
"$usr/bin/mariadb" --no-defaults -h 127.0.0.1 -P "${port[0]}" -D test -N -B --force --unbuffered \
    <statements >>answers 2>&1 &
started+=($!)
exec 3>statements
# Runs a statement in the one session, and prints its answer.
session() {
    local before
    before=$(wc -l <answers)
    echo "$1; SELECT 'end';" >&3
    await eval "tail -n +$((before + 1)) answers | grep -q '^end$'"
    tail -n +$((before + 1)) answers | sed -n 's/^ERROR \([0-9]*\).*/error \1/p; /^[0-9][0-9]*$/p'
}

session "CREATE TEMPORARY TABLE work (n int) ENGINE = Aria" >/dev/null
session "INSERT INTO work VALUES (7)" >/dev/null
seen "files of the session's temporary table" "2" "$(tables)"
serve 1 own
seen "after the start of a server with another tmpdir" "2" "$(tables)"
serve 2 shared
seen "after the start of a server with the same tmpdir" "0" "$(tables)"
seen "the session reads the table" "7" "$(session "SELECT n FROM work")"
seen "the session drops the table" "error 1051" "$(session "DROP TEMPORARY TABLE work")"
