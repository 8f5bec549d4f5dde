#!/usr/bin/env bash
# croniter 7.0.0, APScheduler 3.11.3 and cronsim 2.8 (PyPI), croner 11.0.1, cron 4.4.0 and cron-parser 5.10.6 (npm): when
# clocks change, six libraries run the same two expressions at five different sets of times.
#
# Guess: the libraries agree on a job of 2:30 in Berlin. If not, there are two camps: those that skip the time that is missing
# in March and run twice in October, and those that do as Debian's cron, which runs the job once on both days.
#
# What happens: no library skips 2:30 in March. Four run it at 3:00 and two at 3:30, and in October two of them run it twice.
# For `*/30 2 * * *`, a job of 2:00 and 2:30, there are none, one or two runs in March, and two or four in October. Only croner
# and cronsim agree throughout. If two services watch over one job with different libraries, each sees runs that the other
# one does not have.
source "$(dirname "$0")/common.sh"
wheels croniter==7.0.0 python-dateutil==4.0.0 APScheduler==3.11.3 tzlocal==5.4.5 cronsim==2.8 tzdata==2026.6
modules croner@11.0.1 cron@4.4.0 cron-parser@5.10.6 luxon@3.7.2

# Each prints one line for a library: its name, and the runs between two times, in UTC.
cat >runs.py <<'PYTHON'
import sys
from datetime import datetime, timezone
from zoneinfo import ZoneInfo

from apscheduler.triggers.cron import CronTrigger
from croniter import croniter
from cronsim import CronSim

expression, start, end = sys.argv[1], *map(datetime.fromisoformat, sys.argv[2:])
berlin = ZoneInfo("Europe/Berlin")
start = start.astimezone(berlin)


def with_apscheduler():
    trigger, last, now = CronTrigger.from_crontab(expression, berlin), None, start
    while True:
        last = now = trigger.get_next_fire_time(last, now)
        yield last


def with_croniter():
    runs = croniter(expression, start)
    while True:
        yield runs.get_next(datetime)


for name, runs in (
    ("croniter", with_croniter()),
    ("APScheduler", with_apscheduler()),
    ("cronsim", CronSim(expression, start)),
):
    due = []
    while (run := next(runs).astimezone(timezone.utc)) < end:
        due.append(f"{run:%H:%M}")
    print(name, *due)
PYTHON
cat >runs.mjs <<'NODE'
import { Cron } from "croner";
import { CronTime } from "cron";
import { CronExpressionParser } from "cron-parser";

const [expression, start, end] = process.argv.slice(2);
const zone = "Europe/Berlin";
const from = new Date(start);
const parsed = CronExpressionParser.parse(expression, { currentDate: from, tz: zone });
const nexts = {
  croner: (after) => new Cron(expression, { timezone: zone }).nextRun(after),
  cron: (after) => new CronTime(expression, zone).getNextDateFrom(after, zone).toJSDate(),
  "cron-parser": () => parsed.next().toDate(),
};
for (const [name, next] of Object.entries(nexts)) {
  const due = [];
  for (let run = next(from); run < new Date(end); run = next(run)) due.push(run.toISOString().slice(11, 16));
  console.log([name, ...due].join(" "));
}
NODE
# Compares the runs from noon to noon with those expected on standard input, a line for each library.
compare() {
    echo "--- $1, to $3"
    mapfile -t runs < <(python3 runs.py "$1" "$2T12:00+00:00" "$3T12:00+00:00" && node runs.mjs "$1" "$2T12:00Z" "$3T12:00Z")
    for run in "${runs[@]}"; do
        read -r expected
        seen "${run%% *}" "${expected#"${expected%% *}"}" "${run#"${run%% *}"}"
    done
    [ "${#runs[@]}" = 6 ]
}
echo "All times are UTC. On 30 March 3:00 in Berlin is 01:00; on 26 October 2:30 is 00:30, and again 01:30."
compare '30 2 * * *' 2025-03-29 2025-03-30 <<'RUNS'
croniter 01:00
APScheduler 01:30
cronsim 01:00
croner 01:00
cron 01:00
cron-parser 01:30
RUNS
compare '30 2 * * *' 2025-10-25 2025-10-26 <<'RUNS'
croniter 00:30 01:30
APScheduler 00:30 01:30
cronsim 00:30
croner 00:30
cron 00:30
cron-parser 00:30
RUNS
compare '*/30 2 * * *' 2025-03-29 2025-03-30 <<'RUNS'
croniter 01:00
APScheduler 01:00
cronsim
croner
cron 01:00
cron-parser 01:00 01:30
RUNS
compare '*/30 2 * * *' 2025-10-25 2025-10-26 <<'RUNS'
croniter 00:00 00:30 01:00 01:30
APScheduler 00:00 00:30 01:00 01:30
cronsim 00:00 00:30 01:00 01:30
croner 00:00 00:30 01:00 01:30
cron 00:00 00:30
cron-parser 00:00 00:30
RUNS
