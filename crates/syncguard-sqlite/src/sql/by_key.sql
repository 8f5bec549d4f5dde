SELECT key, lock_id, fence, boot, acquired_ms, expires_ms, offset_ms FROM locks WHERE key = ?1
