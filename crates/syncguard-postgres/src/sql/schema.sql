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
CREATE INDEX IF NOT EXISTS {index_expires} ON {locks} (expires_at_ms);
CREATE TABLE IF NOT EXISTS {fences} (
  fence_key pg_catalog.text PRIMARY KEY,
  fence bigint NOT NULL DEFAULT 0,
  key_debug pg_catalog.text
);
ALTER TABLE {fences} ADD COLUMN IF NOT EXISTS key_debug pg_catalog.text;
-- Locks come and go: vacuum after a fixed number of dead rows, without pausing. Pages are kept, because
-- they fill again at once, and because a table of few pages is read as a whole, also when it has grown.
ALTER TABLE {locks} SET (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000
);
-- A counter is updated in place, which takes room on its page.
ALTER TABLE {fences} SET (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
-- Never delete rows of this table: a counter that starts again repeats fences.
