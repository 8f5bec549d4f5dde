#!/bin/sh
# Run it as: syncguard run account:7 -- ./fenced_sqlite.sh app.db
# CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, fence INTEGER NOT NULL DEFAULT 0);
written=$(sqlite3 "$1" "
    UPDATE account SET balance = balance - 5, fence = $SYNCGUARD_FENCE
    WHERE id = 7 AND fence <= $SYNCGUARD_FENCE RETURNING 'written'") || exit 1
[ "$written" = written ] || { echo "a later holder was here already, or there is no account" >&2; exit 1; }
