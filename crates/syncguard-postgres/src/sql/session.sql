-- For sessions that do nothing but this backend's few statements. The lock table is small one minute
-- and has a hundred thousand dead rows the next: a plan that reads all of it must not outlive its day.
SET enable_seqscan = off;
SET plan_cache_mode = force_generic_plan;
SET jit = off;
-- Notices and warnings stay on the server: the driver logs them, and a trigger's may hold keys.
SET client_min_messages = error;
-- Under a stricter level, ordinary contention is a serialization failure.
SET default_transaction_isolation = 'read committed';
-- No wait without end, for tables as for rows. What the role or the database has of its own stays.
SELECT
  CASE WHEN pg_catalog.current_setting('lock_timeout') {=} '0'
    THEN pg_catalog.set_config('lock_timeout', '{lock_timeout}', false) END,
  CASE WHEN pg_catalog.current_setting('statement_timeout') {=} '0'
    THEN pg_catalog.set_config('statement_timeout', '{statement_timeout}', false) END;
