SELECT key, fence FROM fences WHERE key >= ?1 AND key <> ?2 AND key < ?3 ORDER BY key
