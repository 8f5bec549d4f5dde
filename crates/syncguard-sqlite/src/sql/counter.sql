SELECT fence FROM fences WHERE key = ?1
