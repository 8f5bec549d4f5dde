CREATE TABLE IF NOT EXISTS {locks} (
  key pg_catalog.text PRIMARY KEY,
  lock_id pg_catalog.text NOT NULL,
  expires_at_ms bigint NOT NULL,
  acquired_at_ms bigint NOT NULL,
  fence pg_catalog.text NOT NULL,
  user_key pg_catalog.text NOT NULL,
  holder pg_catalog.text
);
ALTER TABLE {locks} ADD COLUMN IF NOT EXISTS holder pg_catalog.text;
CREATE UNIQUE INDEX IF NOT EXISTS {index_lock_id} ON {locks} (lock_id);
CREATE TABLE IF NOT EXISTS {fences} (
  fence_key pg_catalog.text PRIMARY KEY,
  fence bigint NOT NULL DEFAULT 0,
  key_debug pg_catalog.text
);
ALTER TABLE {fences} ADD COLUMN IF NOT EXISTS key_debug pg_catalog.text;
-- Each acquire and release leave a dead row: vacuum after a fixed number of dead rows, without pausing. Pages are
-- kept, because they fill again at once, and because a plan for a table of few pages reads the whole table, even
-- after it has grown. Half of a page is free for its renewed rows: a statement may renew all of them at once.
ALTER TABLE {locks} SET (
  fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000
);
-- An update of a counter needs room on the same page.
ALTER TABLE {fences} SET (
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
-- Never delete rows of this table: a counter that starts again repeats fences.
