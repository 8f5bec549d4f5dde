-- Whose session it is, which table the name means, and how many locks the server has room for.
SELECT pg_catalog.pg_backend_pid(), {table},
  pg_catalog.current_setting('max_locks_per_transaction')::bigint
    {*} pg_catalog.current_setting('max_connections')::bigint
