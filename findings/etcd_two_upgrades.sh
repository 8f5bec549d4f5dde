#!/usr/bin/env bash
# etcd 3.5.34, 3.6.15 and 3.7.2 (etcd-bin-vendored-linux-amd64 of crates.io): 3.7 panics at its start on a log of 3.5.
#
# Guess: a member goes from 3.5 to 3.6, and when the cluster is of version 3.6, to 3.7. The page about the upgrade asks for
# no more than 3.6.11 or later and no flag of the old store, so the log is one that 3.7 can read.
#
# What happens: 3.5 writes the attributes of a member and the version of the cluster into the log in the form of its old
# store. 3.6 skips them, 3.7 panics. They are read again at each start until the member has written a snapshot, which takes
# 10000 writes on 3.6. A member with less work between the two upgrades does not start.
source "$(dirname "$0")/common.sh"
crate=etcd-bin-vendored-linux-amd64
for version in 3.5.34 3.6.15 3.7.2; do crate "$crate" "$version"; done
etcd_addresses
serve() { serve_etcd "$folder/crates/$1/vendor/$crate/bin/etcd" --log-level panic "${@:2}"; }
# A put and a read, without a client of etcd.
call() { python3 -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1], sys.argv[2].encode() or None).read().decode())' "$@"; }
put() { call "$at/v3/kv/put" '{"key":"bG9jaw==","value":"bWluZQ=="}'; }
cluster() { call "$at/version" '' | grep -o '"etcdcluster":"[0-9.]*"'; }
is_at() { [ "$(cluster)" = "\"etcdcluster\":\"$1\"" ]; }

serve 3.5.34
await put
seen "3.5.34 serves" '"etcdcluster":"3.5.0"' "$(cluster)"
quit
serve 3.6.15
await is_at 3.6.0
seen "3.6.15 serves" '"etcdcluster":"3.6.0"' "$(cluster)"
quit
serve 3.7.2
status=0
wait "${started[-1]}" || status=$?
seen "3.7.2 ends at its start with the status" 2 "$status"
seen "its words" "unmarshal should never fail" "$(grep -o 'unmarshal should never fail' log | head -n 1)"
serve 3.6.15 --snapshot-count 1
for _ in 1 2 3; do await put; done
quit
serve 3.7.2
await is_at 3.7.0
seen "after a snapshot of 3.6.15, 3.7.2 serves" '"etcdcluster":"3.7.0"' "$(cluster)"
