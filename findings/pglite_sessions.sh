#!/usr/bin/env bash
# PGlite 0.5.14 (PostgreSQL 18.6) behind pglite-socket 0.2.17, with the driver pg 8.23.1 (npm): two connections, one session.
#
# Guess: the server allows ten connections and queues their statements, since PGlite runs one at a time. Each connection is a
# session, as in PostgreSQL: a second one does not get an advisory lock that the first one holds, a lock ends with its
# connection, and a notification reaches the connection that listens.
#
# What happens: transactions wait for each other, and all the rest is shared. Both connections get the same exclusive
# lock, and the second one can free the lock of the first. A lock stays after its connection is gone. A connection that listens
# hears nothing if another one notifies; that one, which does not listen, gets the notification. A test of advisory locks or
# of LISTEN passes or fails here for other reasons than in PostgreSQL.
source "$(dirname "$0")/common.sh"
modules @electric-sql/pglite@0.5.14 @electric-sql/pglite-socket@0.2.17 pg@8.23.1

cat >sessions.mjs <<'NODE'
import { PGlite } from "@electric-sql/pglite";
import { PGLiteSocketServer } from "@electric-sql/pglite-socket";
import pg from "pg";

const db = await PGlite.create();
const server = new PGLiteSocketServer({ db, host: "127.0.0.1", port: 0, maxConnections: 10 });
await server.start();
const port = Number(server.getServerConn().split(":").pop());

const heard = [];
async function connect(name) {
  const client = new pg.Client({ host: "127.0.0.1", port, user: "postgres", database: "postgres" });
  await client.connect();
  client.on("notification", (message) => heard.push(`${name} hears ${message.payload}`));
  return client;
}
async function value(client, sql) {
  return String(Object.values((await client.query(sql)).rows[0])[0]);
}
const locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";

const first = await connect("first");
const second = await connect("second");
console.log(await value(first, "SHOW server_version"));
console.log(await value(first, "SELECT pg_try_advisory_lock(7)"));
console.log(await value(second, "SELECT pg_try_advisory_lock(7)"));
console.log(await value(second, "SELECT pg_advisory_unlock(7)"));

await first.query("BEGIN");
const order = [];
const waits = second.query("SELECT 1").then(() => order.push("second"));
await first.query("SELECT 1").then(() => order.push("first"));
await first.query("COMMIT");
await waits;
console.log(order.join(", "));

const third = await connect("third");
await third.query("LISTEN news");
await second.query("NOTIFY news, 'hello'");
await third.query("SELECT 1");
console.log(heard.join(", "));

await first.end();
await third.query("SELECT 1");
console.log(await value(second, locks));
await second.end();
await third.end();
await server.stop();
await db.close();
NODE
mapfile -t lines < <(node sessions.mjs)
seen "PostgreSQL" "18.6" "${lines[0]}"
seen "first: pg_try_advisory_lock(7)" "true" "${lines[1]}"
seen "second: pg_try_advisory_lock(7)" "true" "${lines[2]}"
seen "second: pg_advisory_unlock(7)" "true" "${lines[3]}"
seen "order of two statements, first is in a transaction" "first, second" "${lines[4]}"
seen "third listens, and second notifies" "second hears hello" "${lines[5]}"
seen "advisory locks after first is gone" "1" "${lines[6]}"
