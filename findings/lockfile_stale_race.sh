#!/usr/bin/env bash
# proper-lockfile 4.1.2 (npm), six processes: of those that find one stale lock, two can get it at the same time.
#
# Guess: a lock whose holder died counts as stale after some seconds. Of several processes that ask for it then, one wins, and
# the others are refused, as with a lock that is free.
#
# What happens: a process that finds the folder of the lock too old removes it and makes it anew. Another one that looked at the
# old folder at the same time removes that new folder, and makes it once more. Both are told that they hold the lock. The
# first one hears of it by onCompromised at its next update, two seconds later here, and by default after five.
source "$(dirname "$0")/common.sh"
modules proper-lockfile@4.1.2

cat >race.js <<'SCRIPT'
const { fork } = require("node:child_process");
const fs = require("node:fs");
const lockfile = require("proper-lockfile");

const options = { realpath: false, stale: 5000, update: 2000 };

/** In a child: takes each lock that it is told of, and says how that ended. */
function child() {
  process.on("message", async (name) => {
    const told = (error) => process.send({ compromised: error.code });
    try {
      await lockfile.lock(name, { ...options, onCompromised: told });
      process.send({ answer: "held" });
    } catch (error) {
      process.send({ answer: error.code });
    }
  });
}

async function main(stale) {
  const children = Array.from({ length: 6 }, () => fork(__filename, ["child"]));
  let compromised;
  const heard = new Promise((done) => (compromised = done));
  const ask = (process, name) =>
    new Promise((done) => {
      const listen = (message) => {
        if (message.compromised) compromised(message.compromised);
        if (message.answer) done(message.answer);
      };
      process.removeAllListeners("message");
      process.on("message", listen);
      process.send(name);
    });
  let most = 0;
  for (let round = 0; round < (stale ? 1000 : 100) && most < 2; round++) {
    const name = `lock${stale}${round}`;
    if (stale) {
      fs.mkdirSync(`${name}.lock`);
      const minuteAgo = Date.now() / 1000 - 60;
      fs.utimesSync(`${name}.lock`, minuteAgo, minuteAgo);
    }
    const answers = await Promise.all(children.map((process) => ask(process, name)));
    most = Math.max(most, answers.filter((answer) => answer === "held").length);
  }
  console.log(most > 1 ? "two or more" : most);
  if (most > 1) console.log(await heard);
  for (const process of children) process.kill("SIGKILL");
  process.exit(0);
}

if (process.argv[2] === "child") child();
else main(process.argv[2] === "stale");
SCRIPT
seen "holders of a free lock, the most in 100 rounds" "1" "$(node race.js free)"
mapfile -t race < <(node race.js stale)
seen "holders of a stale lock, in one of at most 1000 rounds" "two or more" "${race[0]}"
seen "what one of the two hears later" "ECOMPROMISED" "${race[1]}"
