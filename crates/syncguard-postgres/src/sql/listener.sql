-- The process id of the session, the oid of the lock table, and the number of locks that the server has room for.
SELECT pg_catalog.pg_backend_pid() AS process, {table} AS table_oid,
  pg_catalog.current_setting('max_locks_per_transaction')::bigint
    {*} pg_catalog.current_setting('max_connections')::bigint AS room
