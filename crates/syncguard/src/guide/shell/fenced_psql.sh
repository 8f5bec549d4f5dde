#!/bin/sh
# Run it as: syncguard run account:7 -- ./fenced_psql.sh "$DATABASE"
# CREATE TABLE account (id bigint PRIMARY KEY, balance bigint, fence bigint NOT NULL DEFAULT 0);
written=$(psql -X -q -t -A -v ON_ERROR_STOP=1 "$1" -c "
    UPDATE account SET balance = balance - 5, fence = $SYNCGUARD_FENCE
    WHERE id = 7 AND fence <= $SYNCGUARD_FENCE RETURNING 'written'") || exit 1
[ "$written" = written ] || { echo "a later holder was here already, or there is no account" >&2; exit 1; }
