-- The timeouts that `session.sql` has set are too short for a new index.
SELECT pg_catalog.set_config(name, reset_val, true) FROM pg_catalog.pg_settings
WHERE name {=} 'lock_timeout' AND setting {=} '{lock_timeout}'
  OR name {=} 'statement_timeout' AND setting {=} '{statement_timeout}'
