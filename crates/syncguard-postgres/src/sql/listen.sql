-- The session is idle most of the time. PostgreSQL has the setting since version 14.
SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name {=} 'idle_session_timeout';
