-- Signals sessions that watch the key, and sends nothing if there are none: NOTIFY takes a lock of the whole cluster
-- at the commit. A watching session holds the advisory lock of the key's number shared. A session that begins to
-- watch gets the number only after this transaction has ended, and then sees its result.
CASE WHEN pg_catalog.pg_try_advisory_xact_lock({number}) THEN NULL
  ELSE pg_catalog.pg_notify('syncguard_' {||} ({table})::pg_catalog.text,
    pg_catalog.to_hex({number})) IS NULL END
