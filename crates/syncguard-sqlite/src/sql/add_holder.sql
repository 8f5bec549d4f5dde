-- The fence and the holder of the lock, for people to read. Older versions of this library write rows and leave this
-- column as it is; the fence shows whether the holder belongs to the lock.
ALTER TABLE locks ADD COLUMN holder TEXT
