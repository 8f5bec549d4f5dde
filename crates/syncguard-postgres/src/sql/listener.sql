-- The process id of the session, the oid of the lock table, the number of locks that the server has room for, and whether
-- this role sees the lock table.
SELECT pg_catalog.pg_backend_pid() AS process, {table} AS table_oid,
  pg_catalog.has_table_privilege(({table})::pg_catalog.oid, 'SELECT'::pg_catalog.text)
    AND NOT pg_catalog.row_security_active(({table})::pg_catalog.oid) AS sees,
  pg_catalog.current_setting('max_locks_per_transaction')::bigint
    {*} pg_catalog.current_setting('max_connections')::bigint AS room
