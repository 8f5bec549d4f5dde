-- For sessions that run only this backend's few statements. The lock table can be small one minute and have a
-- hundred thousand dead rows the next: no plan may read the whole table.
SET enable_seqscan = off;
SET plan_cache_mode = force_generic_plan;
SET jit = off;
-- Notices and warnings stay on the server: the driver logs them, and a notice of a trigger may contain keys.
SET client_min_messages = error;
-- With a stricter level, ordinary contention is a serialization failure.
SET default_transaction_isolation = 'read committed';
-- Limits all waits, for tables and for rows. Settings of the role or the database stay.
SELECT
  CASE WHEN pg_catalog.current_setting('lock_timeout') {=} '0'
    THEN pg_catalog.set_config('lock_timeout', '{lock_timeout}', false) END,
  CASE WHEN pg_catalog.current_setting('statement_timeout') {=} '0'
    THEN pg_catalog.set_config('statement_timeout', '{statement_timeout}', false) END;
