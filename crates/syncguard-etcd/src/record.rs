//! The stored records: locks as JSON, counters as 15 digits, index entries as the key.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use syncguard_core::authoring::conditional::{Record, StoredLock};
use syncguard_core::authoring::{corrupt_record, hash_key};
use syncguard_core::contract::Holder;
use syncguard_core::{Fence, Key, LockError, LockId, Timestamp};

use crate::txn::Version;
use crate::wire::KeyValue;

/// A lock as it is stored, with the field names that the other stores have.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored<'a> {
    #[serde(borrow)]
    lock_id: Cow<'a, str>,
    expires_at_ms: u64,
    acquired_at_ms: u64,
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow)]
    fence: Cow<'a, str>,
    /// The fields for people, and those of later versions.
    #[serde(flatten)]
    people: serde_json::Map<String, Value>,
}

impl Stored<'_> {
    fn value(&self) -> Result<Vec<u8>, LockError> {
        serde_json::to_vec(self).map_err(|_| LockError::internal("a lock has no JSON"))
    }
}

/// The value of a stored lock with another expiry, and with all other fields: a later version may have more of them.
///
/// # Errors
///
/// `Internal` if the value is not that of a lock.
pub(crate) fn with_expiry(value: &[u8], expires_at: Timestamp) -> Result<Vec<u8>, LockError> {
    let stored: Stored<'_> = serde_json::from_slice(value)
        .map_err(|_| LockError::internal("a stored lock is not the JSON of a lock"))?;
    Stored { expires_at_ms: expires_at.as_millis(), ..stored }.value()
}

/// The value of a lock.
///
/// # Errors
///
/// `Internal` if JSON cannot hold the lock, which it always can.
pub(crate) fn value(record: &Record) -> Result<Vec<u8>, LockError> {
    let people = record.holder.iter().flat_map(Holder::fields);
    let stored = Stored {
        lock_id: record.lock_id.expose().into(),
        expires_at_ms: record.expires_at.as_millis(),
        acquired_at_ms: record.acquired_at.as_millis(),
        key: record.key.expose().into(),
        fence: record.fence.to_string().into(),
        people: people.map(|(name, text)| (name.to_owned(), text.into())).collect(),
    };
    stored.value()
}

/// Reads the lock of the key with this text.
///
/// # Errors
///
/// `Internal` if the record is not the lock of the key in its name. Only the hash of the name gets into the error.
pub(crate) fn lock(
    name: &str,
    text: &str,
    stored: KeyValue,
) -> Result<StoredLock<Version>, LockError> {
    let corrupt = |problem| corrupt_record(name, problem);
    let lock: Stored<'_> = serde_json::from_slice(&stored.value)
        .map_err(|_| corrupt("it is not the JSON of a lock"))?;
    let time = |millis, problem| Timestamp::from_millis(millis).map_err(|_| corrupt(problem));
    let key = Key::new(&*lock.key).map_err(|_| corrupt("key is not a key"))?;
    if key.expose() != text {
        return Err(corrupt("key is that of another record"));
    }
    let lock_id = LockId::new(&*lock.lock_id);
    let record = Record {
        key,
        lock_id: lock_id.map_err(|_| corrupt("lockId is not a lock id"))?,
        acquired_at: time(lock.acquired_at_ms, "acquiredAtMs is not a time")?,
        expires_at: time(lock.expires_at_ms, "expiresAtMs is not a time")?,
        fence: lock.fence.parse().map_err(|_| corrupt("fence is not 15 digits"))?,
        holder: Holder::from_fields(|name| lock.people.get(name)?.as_str()),
        // Only this library writes to these keys.
        is_polled: false,
    };
    Ok(StoredLock { record, version: Version::of(stored) })
}

/// Reads a counter.
///
/// # Errors
///
/// `Internal` if the record is not a counter.
pub(crate) fn counter(name: &str, stored: &KeyValue) -> Result<Fence, LockError> {
    let fence = std::str::from_utf8(&stored.value).ok().and_then(|digits| digits.parse().ok());
    let corrupt = || format!("corrupt fence counter {}: it is not 15 digits", hash_key(name));
    fence.ok_or_else(|| LockError::internal(corrupt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "syncguard/l/job:7";
    const STORED: &str = r#"{"lockId":"apesXHOdi5wMq4V2M0-VRg","expiresAtMs":31000,"acquiredAtMs":1000,"key":"job:7","fence":"000000000000007","holder":"web-1","note":"run \"4\""}"#;

    fn stored(value: &[u8]) -> KeyValue {
        KeyValue { value: value.to_vec(), ..KeyValue::default() }
    }

    fn read(value: &str) -> Result<Record, LockError> {
        lock(NAME, "job:7", stored(value.as_bytes())).map(|held| held.record)
    }

    #[test]
    fn what_is_written_can_be_read() {
        let key = Key::new("job:7").unwrap();
        let id = LockId::new("apesXHOdi5wMq4V2M0-VRg").unwrap();
        let time = |millis| Timestamp::from_millis(millis).unwrap();
        let holder = Holder::new("web-1").unwrap().with_note("run \"4\"").unwrap();
        let (acquired_at, expires_at, fence) = (time(1000), time(31_000), Fence::new(7).unwrap());
        let holder = Some(holder);
        let record = Record {
            key: key.clone(),
            lock_id: id,
            acquired_at,
            expires_at,
            fence,
            holder: holder.clone(),
            is_polled: false,
        };
        assert_eq!(String::from_utf8(value(&record).unwrap()).unwrap(), STORED);
        let info = read(STORED).unwrap().into_info();
        let expected = syncguard_core::LockInfo::new(key, id, acquired_at, expires_at, fence);
        assert_eq!(info, expected.with_holder(holder));
    }

    #[test]
    fn fields_of_later_versions_are_no_fault() {
        let newer = STORED.replace("\"}", "\",\"more\":[1]}");
        assert!(read(&newer).is_ok());
        let extended = with_expiry(newer.as_bytes(), Timestamp::from_millis(32_000).unwrap());
        let expected = newer.replace("31000", "32000");
        let json = |value: &[u8]| serde_json::from_slice::<Value>(value).unwrap();
        assert_eq!(json(&extended.unwrap()), json(expected.as_bytes()));
        let bare = STORED.replace(r#","holder":"web-1","note":"run \"4\"""#, "");
        assert_eq!(read(&bare).unwrap().into_info().holder, None);
    }

    #[test]
    fn what_makes_no_sense_is_corrupt_and_names_no_key() {
        for (right, wrong) in [
            (STORED, ""),
            (STORED, "[]"),
            ("31000", "-1"),
            ("31000", "0.5"),
            ("31000", "9007199254740993"),
            ("1000,", "\"1000\","),
            ("apesXHOdi5wMq4V2M0-VRg", "short"),
            ("\"job:7\"", "\"job:8\""),
            ("\"job:7\"", "\"\""),
            ("000000000000007", "7"),
            ("\"000000000000007\"", "7"),
            ("\"fence\"", "\"fences\""),
        ] {
            let Err(error) = read(&STORED.replace(right, wrong)) else { panic!("{wrong}") };
            assert_eq!(error.code(), syncguard_core::ErrorCode::Internal);
            assert!(!format!("{error:?}").contains("job:7"), "{error:?}");
            assert!(error.message().contains(&hash_key(NAME).to_string()), "{error}");
        }
        for wrong in [&b""[..], b"7", b"00000000000000x", b"\xff"] {
            assert!(counter("syncguard/f/job:7", &stored(wrong)).is_err(), "{wrong:?}");
        }
        let seven = stored(b"000000000000007");
        assert_eq!(counter("x", &seven).unwrap(), Fence::new(7).unwrap());
    }
}
