SELECT
  pg_is_in_recovery(),
  current_setting('fsync'),
  current_setting('full_page_writes'),
  (SELECT relpersistence::text FROM pg_catalog.pg_class WHERE oid = to_regclass($1)),
  (SELECT relpersistence::text FROM pg_catalog.pg_class WHERE oid = to_regclass($2))
