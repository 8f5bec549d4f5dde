#!/usr/bin/env bash
# Debian's cron 3.0pl1-162, with the clock of libfaketime 0.9.10-2.1: the order of a list changes the days of a job.
#
# Guess: `*,13`, `13,*` and `1-31` are the same set, each day of the month. By crontab(5), a job with a day of the month and a
# day of the week starts if either fits, so all three jobs start each day. At worst, a field with a `*` in it counts as no
# limit; then `*,13` and `13,*` both leave Mondays.
#
# What happens: cron looks at the first character of the field alone. With `*,13` the job starts on Mondays only, with `13,*`
# and `1-31` it starts each day.
#
# Needs root. cron sees empty folders in place of the machine's crontabs and of /run.
source "$(dirname "$0")/common.sh"
debian cron 3.0pl1-162
debian libfaketime 0.9.10-2.1
mkdir days

cat >crontab <<CRONTAB
* * *,13 * 1 touch $folder/days/star-first
* * 13,* * 1 touch $folder/days/star-last
* * 1-31 * 1 touch $folder/days/range
* * * * * touch $folder/days/every-day
CRONTAB
cat >private.sh <<'PRIVATE'
set -euo pipefail
mount -t tmpfs none /var/spool
mount -t tmpfs none /run
if [ -e /etc/crontab ]; then mount --bind /dev/null /etc/crontab; fi
if [ -d /etc/cron.d ]; then mount -t tmpfs none /etc/cron.d; fi
mkdir -p -m 1730 /var/spool/cron/crontabs
install -m 600 crontab /var/spool/cron/crontabs/root
LD_PRELOAD=$(find "$PWD/debian" -name libfaketime.so.1) FAKETIME="@$1" exec debian/usr/sbin/cron -f
PRIVATE

# Runs cron from a time three seconds before a minute and shows the jobs that it starts in that minute. Waits for
# the expected ones, and then a second for others, since cron starts the jobs of a minute together.
run_from() {
    rm -f days/*
    start unshare --mount bash private.sh "$1"
    for job in $2; do await test -e "days/$job"; done
    sleep 1
    kill "${started[-1]}"
    wait "${started[-1]}" || true
    seen "$1" "$2" "$(cd days && echo *)"
}
echo "a Wednesday and a Monday:"
run_from '2026-03-18 12:00:57' "every-day range star-last"
run_from '2026-03-16 12:00:57' "every-day range star-first star-last"
