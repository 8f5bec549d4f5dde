SELECT key, lock_id, fence, boot, acquired_ms, expires_ms, offset_ms, holder FROM locks
WHERE key >= ?1 AND key <> ?2 AND key < ?3 ORDER BY key
