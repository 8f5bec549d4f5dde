-- What holds for this statement's own transaction: the commit waits for the disk whatever the
-- session says, and no wait for another session is without end.
settings AS MATERIALIZED (
  SELECT
    CASE WHEN pg_catalog.current_setting('synchronous_commit') {<>} ALL (ARRAY['on', 'remote_apply'])
      THEN pg_catalog.set_config('synchronous_commit', 'on', true) END AS commits,
    {waits} AS waits
)
