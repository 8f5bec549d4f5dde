-- Tells those who watch the key, and only them: NOTIFY takes a lock of the whole cluster at the commit.
-- Who watches holds the key's number shared. The other way round, who wants to watch gets the number
-- only when this transaction is over, and then sees what it has done.
CASE WHEN pg_catalog.pg_try_advisory_xact_lock({number}) THEN NULL
  ELSE pg_catalog.pg_notify('syncguard_' {||} ({table})::pg_catalog.text,
    pg_catalog.to_hex({number})) IS NULL END
