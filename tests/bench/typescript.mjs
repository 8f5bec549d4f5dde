// A process of the TypeScript library in a contest of `cargo xtask bench waiting`: the child's side, as `child.rs` is
// for this library. Run by the bench where SYNCGUARD_TYPESCRIPT names a folder with the built library and its drivers.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const folder = process.env.SYNCGUARD_TYPESCRIPT;
const require = createRequire(`${folder}/`);
const [url, { Contest: contest }] = JSON.parse(process.argv.at(-1));
const library = (name) => import(pathToFileURL(`${folder}/${name}/index.js`));

/** The library on the store, and what ends its connections. */
async function connect() {
  if (url.startsWith("redis:")) {
    const { Redis } = require("ioredis");
    const redis = new Redis(url);
    const { createLock } = await library("redis");
    return [createLock(redis), () => redis.disconnect()];
  }
  if (url.startsWith("postgres:")) {
    const postgres = require("postgres");
    const sql = postgres(url, { max: contest.waiters, onnotice: () => {} });
    const { createLock } = await library("postgres");
    return [createLock(sql), () => sql.end()];
  }
  throw new Error("no such store here");
}

const now = () => Number(process.hrtime.bigint());
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const millis = ({ secs, nanos }) => secs * 1e3 + nanos / 1e6;
const any = ({ least, most }) => millis(least) + Math.random() * (millis(most) - millis(least));

const [lock, disconnect] = await connect();
for (let round = 0; round < 20; round++) {
  await lock(() => {}, { key: `warm:${process.pid}` });
}
console.log("ready");
const [line] = await new Promise((resolve) => {
  createInterface({ input: process.stdin }).once("line", (line) => resolve([line]));
});
const start = Number(line);
const end = start + millis(contest.time) * 1e6;
await sleep((start - now()) / 1e6);

const turns = [];
const failures = {};
async function wait() {
  for (let requested; (requested = now()) < end; ) {
    const key = Math.floor(Math.random() * contest.keys.length);
    try {
      let granted, releaseBegun;
      await lock(
        async () => {
          granted = now();
          const work = any(contest.work);
          if (work > 0) await sleep(work);
          releaseBegun = now();
        },
        { key: contest.keys[key] },
      );
      turns.push({ key, requested, granted, release_begun: releaseBegun });
    } catch (error) {
      const code = error.code ?? String(error);
      failures[code] = (failures[code] ?? 0) + 1;
    }
    await sleep(any(contest.rest));
  }
}
await Promise.all(Array.from({ length: contest.waiters }, wait));
console.log(JSON.stringify({ turns, failures }));
await disconnect();
process.exit(0);
