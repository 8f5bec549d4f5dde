#!/usr/bin/env bash
# etcd 3.7.2 (etcd-bin-vendored-linux-amd64 of crates.io): a transaction with two puts of a key is refused, although at most one
# of them can be carried out.
#
# Guess: a key may not be put twice in one transaction, so that its order does not matter. Two nested transactions, one that
# puts if the other key exists and one that puts if it does not, never put twice, and are served, as the two branches of one
# transaction are, which may both put the key.
#
# What happens: the check goes over all nested transactions and takes no notice of their conditions. Refused are two puts in two
# nested transactions with opposite conditions. One nested transaction with a put in both branches is served; so are a put in
# one nested transaction and a delete of the same key in the other, and two deletes of one key.
source "$(dirname "$0")/common.sh"
crate=etcd-bin-vendored-linux-amd64
crate "$crate" 3.7.2
etcd_addresses
serve_etcd "$folder/crates/3.7.2/vendor/$crate/bin/etcd" --log-level error

cat >transaction.py <<'PYTHON'
import base64
import json
import sys
import urllib.error
import urllib.request

name = lambda text: base64.b64encode(text.encode()).decode()
put = {"requestPut": {"key": name("lock"), "value": name("mine")}}
delete = {"requestDeleteRange": {"key": name("lock")}}


def flag(result):
    return [{"target": "VERSION", "key": name("flag"), "version": "0", "result": result}]


def nested(result, then, other=None):
    return {"requestTxn": {"compare": flag(result), "success": [then], "failure": [other] if other else []}}


transactions = {
    "branches": {"compare": flag("EQUAL"), "success": [put], "failure": [put]},
    "one": {"success": [nested("EQUAL", put, put)]},
    "two": {"success": [nested("EQUAL", put), nested("NOT_EQUAL", put)]},
    "delete": {"success": [nested("EQUAL", put), nested("NOT_EQUAL", delete)]},
    "deletes": {"success": [delete, delete]},
}
body = json.dumps(transactions[sys.argv[2]]).encode()
try:
    urllib.request.urlopen(sys.argv[1] + "/v3/kv/txn", body).read()
    print("served")
except urllib.error.HTTPError as error:
    print(json.load(error)["message"])
PYTHON
ask() { python3 transaction.py "$at" "$1"; }
await ask deletes
seen "a put in both branches of a transaction" "served" "$(ask branches)"
seen "a put in both branches of a nested transaction" "served" "$(ask one)"
seen "a put in each of two that exclude one another" "etcdserver: duplicate key given in txn request" "$(ask two)"
seen "a put in one, a delete in the other" "served" "$(ask delete)"
seen "two deletes of one key" "served" "$(ask deletes)"
