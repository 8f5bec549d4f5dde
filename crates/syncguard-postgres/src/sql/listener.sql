-- Whose session it is, which table the name means, and how many locks the server has room for.
SELECT pg_backend_pid(), {table},
  current_setting('max_locks_per_transaction')::bigint * current_setting('max_connections')::bigint
