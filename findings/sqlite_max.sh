#!/usr/bin/env bash
# SQLite 3.54.1 (apsw 3.54.1.0 of PyPI): the larger one of two values can be the smaller number.
#
# Guess: n is an INTEGER column. `n > '000000000000003'` compares numbers, since the column's affinity turns the text into 3.
# So `SET n = max(n, '000000000000003')` compares numbers as well, and n never goes down.
#
# What happens: max() applies no affinity to its arguments. Each text counts as larger than each number, so the text wins.
# The column's affinity works afterwards, when the text is stored: it becomes the number 3. A column that held 5 holds 3, and
# the WHERE clause of the same statement was right to say that 5 is larger. A program that binds a number gets 5.
source "$(dirname "$0")/common.sh"
wheels apsw==3.54.1.0

cat >max.py <<'PYTHON'
import apsw

print(apsw.sqlite_lib_version())
database = apsw.Connection(":memory:")
database.execute("CREATE TABLE fences (n INTEGER)")


def after(bound):
    database.execute("DELETE FROM fences; INSERT INTO fences VALUES (5)")
    database.execute("UPDATE fences SET n = max(n, ?) WHERE n > ?", (bound, bound))
    return database.execute("SELECT n || ' as ' || typeof(n) FROM fences").fetchone()[0]


print(database.execute("SELECT 5 > CAST('000000000000003' AS INTEGER), max(5, '000000000000003')").fetchone())
print(after("000000000000003"))
print(after(3))
PYTHON
mapfile -t lines < <(python3 max.py)
seen "SQLite" "3.54.1" "${lines[0]}"
seen "5 > 3, and max() of 5 and the text" "(1, '000000000000003')" "${lines[1]}"
seen "5 after max(n, text), only where n > text" "3 as integer" "${lines[2]}"
seen "5 after max(n, number), only where n > number" "5 as integer" "${lines[3]}"
