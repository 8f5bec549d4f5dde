#!/usr/bin/env bash
# etcd 3.7.2 (etcd-bin-vendored-linux-amd64 of crates.io): a restart of the server gives each lease its whole time again.
#
# Guess: a lease of eight seconds that nobody keeps alive is over eight seconds after it was granted; the server's time away may
# be added to it.
#
# What happens: the server keeps the length of a lease on the disk, and what is left of it in memory. Each restart, and each new
# leader, begins with the whole length. A lock that hangs on a lease outlives its dead owner for as long as the server is
# restarted more often than the lease is long: here a key of eight seconds is still there after three restarts and more than
# fifteen seconds.
source "$(dirname "$0")/common.sh"
crate=etcd-bin-vendored-linux-amd64
crate "$crate" 3.7.2
etcd_addresses
serve() {
    serve_etcd "$folder/crates/3.7.2/vendor/$crate/bin/etcd" --log-level error
    await call version ''
}
# A request, without a client of etcd.
call() { python3 -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1], sys.argv[2].encode() or None).read().decode())' "$at/$1" "$2"; }
number() { grep -o "\"$1\":\"-*[0-9]*\"" | head -n 1 | tr -dc '0-9-'; }
left() { call v3/lease/timetolive "{\"ID\":\"$lease\"}" | number TTL; }
now() { date +%s%N | cut -c1-13; }

serve
lease=$(call v3/lease/grant '{"TTL":"8"}' | number ID)
granted=$(now)
call v3/kv/put "{\"key\":\"bG9jaw==\",\"value\":\"bWluZQ==\",\"lease\":\"$lease\"}" >/dev/null
seen "seconds that are left at first" "yes" "$([ "$(left)" -le 8 ] && echo yes)"
for restart in 1 2 3; do
    sleep 5
    before=$(left)
    quit
    serve
    seen "before restart $restart, at most 3 s are left; after it, more" "yes" \
        "$([ "$before" -le 3 ] && [ "$(left)" -ge 6 ] && echo yes || echo "$before, $(left)")"
done
seen "more than 15 seconds after the grant of 8" "yes" "$([ $(($(now) - granted)) -gt 15000 ] && echo yes)"
seen "the key is there" "1" "$(call v3/kv/range '{"key":"bG9jaw=="}' | number count)"
gone() { [ "$(left)" = -1 ]; }
await gone
seen "without a restart, the key is gone" "" "$(call v3/kv/range '{"key":"bG9jaw=="}' | number count || true)"
