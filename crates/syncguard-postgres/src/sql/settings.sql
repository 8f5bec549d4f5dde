-- Settings for the transaction of this statement: the commit waits for the disk even if the session does not ask
-- for it, and waits for other sessions are limited.
settings AS MATERIALIZED (
  SELECT
    {commits} AS commits, {waits} AS waits
)
