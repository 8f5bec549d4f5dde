INSERT INTO locks (key, lock_id, fence, boot, acquired_ms, expires_ms, offset_ms, holder)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (key) DO UPDATE SET
    lock_id = excluded.lock_id, fence = excluded.fence, boot = excluded.boot,
    acquired_ms = excluded.acquired_ms, expires_ms = excluded.expires_ms, offset_ms = excluded.offset_ms,
    holder = coalesce(excluded.holder, holder)
