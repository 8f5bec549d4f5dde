DELETE FROM locks WHERE key = ?1
