-- What holds for this statement's own transaction: the commit waits for the disk whatever the
-- session says, and no wait for another session is without end.
settings AS MATERIALIZED (
  SELECT
    CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
      THEN set_config('synchronous_commit', 'on', true) END AS commits,
    {waits} AS waits
)
