-- The session is idle most of its life. The setting is there from PostgreSQL 14 on.
SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name {=} 'idle_session_timeout';
