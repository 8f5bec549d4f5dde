-- The timeouts that `session.sql` has set are too short for making an index.
SELECT set_config(name, reset_val, true) FROM pg_catalog.pg_settings
WHERE (name, setting) IN (('lock_timeout', '{lock_timeout}'), ('statement_timeout', '{statement_timeout}'))
