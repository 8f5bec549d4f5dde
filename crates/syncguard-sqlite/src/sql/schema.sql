-- One row for each key that is locked or whose lock has expired. Times are milliseconds of the machine's
-- clock since the boot named by `boot`; plus `offset_ms` they are Unix time.
CREATE TABLE locks (
    key         TEXT    NOT NULL PRIMARY KEY,
    lock_id     TEXT    NOT NULL UNIQUE,
    fence       INTEGER NOT NULL,
    boot        TEXT    NOT NULL,
    acquired_ms INTEGER NOT NULL,
    expires_ms  INTEGER NOT NULL,
    offset_ms   INTEGER NOT NULL,
    -- The fence and the holder of the lock, for people to read. A client that knows no holders leaves this column as it
    -- is; the fence shows whether the holder belongs to the lock.
    holder      TEXT
) STRICT, WITHOUT ROWID;

-- The last fence of each key that was ever locked. Rows are never deleted, or fences would repeat.
CREATE TABLE fences (
    key   TEXT    NOT NULL PRIMARY KEY,
    fence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
