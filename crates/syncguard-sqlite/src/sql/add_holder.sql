-- Who holds the lock, for people, behind the fence of the lock: older versions of this library write rows and leave
-- this as it is.
ALTER TABLE locks ADD COLUMN holder TEXT
