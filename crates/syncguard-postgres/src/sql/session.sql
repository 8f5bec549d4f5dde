-- For sessions that run only this backend's few statements. The lock table can be small one minute and have a
-- hundred thousand dead rows the next: no plan may read the whole table.
SET enable_seqscan = off;
SET plan_cache_mode = force_generic_plan;
SET jit = off;
-- Notices and warnings stay on the server: the driver logs them, and a notice of a trigger may contain keys.
SET client_min_messages = error;
-- With a stricter level, ordinary contention is a serialization failure.
SET default_transaction_isolation = 'read committed';
-- Limits all waits, for tables and for rows. Shorter limits of the role or the database would end ordinary waits for
-- another session; longer ones stay.
SELECT pg_catalog.set_config(s.name, ours.limit_ms, false)
FROM pg_catalog.pg_settings AS s
JOIN (VALUES ('lock_timeout', '{lock_timeout}'), ('statement_timeout', '{statement_timeout}')) AS ours (name, limit_ms)
  ON s.name {=} ours.name
WHERE s.setting::bigint {<} ours.limit_ms::bigint;
