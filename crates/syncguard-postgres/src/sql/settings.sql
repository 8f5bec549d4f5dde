-- Settings for the transaction of this statement: the commit waits for the disk even if the session does not ask
-- for it, and waits for other sessions are limited.
settings AS MATERIALIZED (
  SELECT
    CASE WHEN pg_catalog.current_setting('synchronous_commit') {<>} ALL (ARRAY['on', 'remote_apply'])
      THEN pg_catalog.set_config('synchronous_commit', 'on', true) END AS commits,
    {waits} AS waits
)
