SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema),
    EXISTS (SELECT 1 FROM pragma_table_info('locks') WHERE name = 'holder')
FROM pragma_application_id, pragma_user_version
