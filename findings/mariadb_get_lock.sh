#!/usr/bin/env bash
# MariaDB 10.11.19 (Debian's 1:10.11.19-0+deb12u1): GET_LOCK with a negative timeout does not wait at all.
#
# Guess: as in MySQL, from which the function is: a negative timeout means to wait without limit, and names differ only if they
# differ in more than capitals.
#
# What happens: a negative timeout is answered by NULL at once, whether the lock is free or held, with a warning. A program that
# was written for MySQL and looks for "not 0" goes on without the lock. The names Job and job are two locks.
source "$(dirname "$0")/common.sh"
mariadb
port=$(ports 1)
mkdir tmp
serve_mariadb "$port" 0 tmp
sql() { "$usr/bin/mariadb" --no-defaults -h 127.0.0.1 -P "$port" -N -B -e "$1" 2>&1; }
await sql "SELECT 1"

seen "GET_LOCK of a free lock with a timeout of -1" "NULL" "$(sql "SELECT GET_LOCK('job', -1)")"
seen "the warning's code" "1411" "$(sql "SELECT GET_LOCK('job', -1); SHOW WARNINGS" | sed -n 's/^Warning\t\([0-9]*\).*/\1/p')"
seen "the lock is still free" "1" "$(sql "DO GET_LOCK('job', -1); SELECT IS_FREE_LOCK('job')")"
seen "GET_LOCK of a free lock with a timeout of 0" "1" "$(sql "SELECT GET_LOCK('job', 0)")"
seen "with the lock job, the lock Job is free" "1" "$(sql "DO GET_LOCK('job', 0); SELECT IS_FREE_LOCK('Job')")"
