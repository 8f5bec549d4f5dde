//! The documents of locks and counters, with the same fields that the TypeScript library writes.

use std::collections::HashMap;

use gcloud_sdk::google::firestore::v1::precondition::ConditionType;
use gcloud_sdk::google::firestore::v1::value::ValueType;
use gcloud_sdk::google::firestore::v1::write::Operation;
use gcloud_sdk::google::firestore::v1::{Document, DocumentMask, Precondition, Value, Write};
use gcloud_sdk::prost_types;
use syncguard_core::authoring::conditional::{Counter, Record, StoredLock};
use syncguard_core::authoring::{corrupt_record, hash_key};
use syncguard_core::contract::Holder;
use syncguard_core::{Fence, Key, LockError, LockId, Timestamp};

use crate::names::{lock_id_of, storage_key_of};

/// The field by which a lock is found without its key.
pub(crate) const LOCK_ID: &str = "lockId";
const EXPIRES_AT: &str = "expiresAtMs";
const ACQUIRED_AT: &str = "acquiredAtMs";
pub(crate) const KEY: &str = "key";
const FENCE: &str = "fence";
pub(crate) const HOLDER: &str = "holder";
pub(crate) const KEY_DEBUG: &str = "keyDebug";

/// The update time of a document. A write with this precondition succeeds only if no newer state exists.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Version {
    seconds: i64,
    nanos: i32,
}

impl From<prost_types::Timestamp> for Version {
    fn from(time: prost_types::Timestamp) -> Self {
        Self { seconds: time.seconds, nanos: time.nanos }
    }
}

/// Reads a lock.
///
/// # Errors
///
/// `Internal` if the document is not a valid lock.
pub(crate) fn lock(document: Document) -> Result<StoredLock<Version>, LockError> {
    let Document { name, fields, update_time, .. } = document;
    let storage_key = storage_key_of(&name);
    let corrupt = |problem| corrupt_record(storage_key, problem);
    let time = |field, problem| {
        millis(&fields, field)
            .and_then(|millis| Timestamp::from_millis(millis).ok())
            .ok_or_else(|| corrupt(problem))
    };
    let key = text(&fields, KEY)
        .and_then(|key| Key::new(key).ok())
        .ok_or_else(|| corrupt("key is not a key"))?;
    if lock_id_of(&key)?.expose() != storage_key {
        return Err(corrupt("key is that of another document"));
    }
    let record = Record {
        key,
        lock_id: text(&fields, LOCK_ID)
            .and_then(|id| LockId::new(id).ok())
            .ok_or_else(|| corrupt("lockId is not a lock id"))?,
        acquired_at: time(ACQUIRED_AT, "acquiredAtMs is not a time")?,
        expires_at: time(EXPIRES_AT, "expiresAtMs is not a time")?,
        fence: text(&fields, FENCE)
            .and_then(|fence| fence.parse().ok())
            .ok_or_else(|| corrupt("fence is not 15 digits"))?,
        holder: Holder::from_fields(|name| text(&fields, name)),
        // The TypeScript library does not write the field.
        is_polled: text(&fields, HOLDER).is_none(),
    };
    let version = update_time.ok_or_else(|| corrupt("it has no update time"))?.into();
    Ok(StoredLock { record, version })
}

/// Makes the document of a lock.
pub(crate) fn of_lock(name: String, lock: &Record) -> Document {
    let fields = [
        (LOCK_ID, string(lock.lock_id.expose())),
        (EXPIRES_AT, integer(lock.expires_at)),
        (ACQUIRED_AT, integer(lock.acquired_at)),
        (KEY, string(lock.key.expose())),
        (FENCE, string(&lock.fence.to_string())),
    ];
    let people = lock.holder.iter().flat_map(Holder::fields);
    document(name, fields.into_iter().chain(people.map(|(name, text)| (name, string(text)))))
}

/// Reads the last fence of a key.
///
/// # Errors
///
/// `Internal` if the document is not a valid fence counter.
pub(crate) fn counter(document: &Document) -> Result<Counter<Version>, LockError> {
    let hash = hash_key(storage_key_of(&document.name));
    let corrupt = |problem| LockError::internal(format!("corrupt fence counter {hash}: {problem}"));
    let last = text(&document.fields, FENCE).and_then(|fence| fence.parse().ok());
    Ok(Counter {
        last: last.ok_or_else(|| corrupt("fence is not 15 digits"))?,
        version: document.update_time.ok_or_else(|| corrupt("it has no update time"))?.into(),
    })
}

/// Makes the document of a counter.
pub(crate) fn of_counter(name: String, key: &Key, last: Fence) -> Document {
    document(name, [(FENCE, string(&last.to_string())), (KEY_DEBUG, string(key.expose()))])
}

/// Writes a document, if the stored one still has the version that was read, or is still absent.
pub(crate) fn put(document: Document, seen: Option<Version>) -> Write {
    write(Operation::Update(document), seen.map_or(ConditionType::Exists(false), unchanged))
}

/// Writes only a lock's expiry, if the document still has this version.
pub(crate) fn put_expiry(name: String, seen: Version, expires_at: Timestamp) -> Write {
    let document = document(name, [(EXPIRES_AT, integer(expires_at))]);
    let mask = DocumentMask { field_paths: vec![EXPIRES_AT.to_owned()] };
    Write { update_mask: Some(mask), ..write(Operation::Update(document), unchanged(seen)) }
}

/// Deletes a document, if it still has this version.
pub(crate) fn delete(name: String, seen: Version) -> Write {
    write(Operation::Delete(name), unchanged(seen))
}

fn unchanged(Version { seconds, nanos }: Version) -> ConditionType {
    ConditionType::UpdateTime(prost_types::Timestamp { seconds, nanos })
}

fn write(operation: Operation, condition: ConditionType) -> Write {
    Write {
        operation: Some(operation),
        current_document: Some(Precondition { condition_type: Some(condition) }),
        ..Write::default()
    }
}

fn document(name: String, fields: impl IntoIterator<Item = (&'static str, Value)>) -> Document {
    let fields = fields.into_iter().map(|(field, value)| (field.to_owned(), value)).collect();
    Document { name, fields, ..Document::default() }
}

pub(crate) fn string(text: &str) -> Value {
    Value { value_type: Some(ValueType::StringValue(text.to_owned())) }
}

fn integer(time: Timestamp) -> Value {
    // At most 2^53 - 1.
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    Value { value_type: Some(ValueType::IntegerValue(millis)) }
}

fn text<'a>(fields: &'a HashMap<String, Value>, field: &str) -> Option<&'a str> {
    match fields.get(field)?.value_type.as_ref()? {
        ValueType::StringValue(text) => Some(text),
        _ => None,
    }
}

/// Returns the key in a document; `field` is the field that holds it.
pub(crate) fn key_of<'d>(document: &'d Document, field: &str) -> Option<&'d str> {
    text(&document.fields, field)
}

/// Node's SDK writes whole numbers as integers; some clients support only doubles.
fn millis(fields: &HashMap<String, Value>, field: &str) -> Option<u64> {
    match *fields.get(field)?.value_type.as_ref()? {
        ValueType::IntegerValue(number) => u64::try_from(number).ok(),
        ValueType::DoubleValue(number) => whole(number),
        _ => None,
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "only whole numbers from 0 to 2^53 get there"
)]
fn whole(number: f64) -> Option<u64> {
    const LARGEST: f64 = 9_007_199_254_740_992.0;
    ((0.0..LARGEST).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "projects/p/databases/d/documents/locks/job:7";

    fn stored() -> Document {
        let time = |millis| Timestamp::from_millis(millis).unwrap();
        let record = Record {
            key: Key::new("job:7").unwrap(),
            lock_id: LockId::new("apesXHOdi5wMq4V2M0-VRg").unwrap(),
            acquired_at: time(1000),
            expires_at: time(31_000),
            fence: Fence::new(7).unwrap(),
            holder: Some(Holder::new("web-1").unwrap().with_note("run 4").unwrap()),
            is_polled: false,
        };
        let document = of_lock(NAME.to_owned(), &record);
        Document { update_time: Some(prost_types::Timestamp::default()), ..document }
    }

    fn read(document: Document) -> Result<Record, LockError> {
        lock(document).map(|held| held.record)
    }

    fn with(field: &str, value: ValueType) -> Document {
        let mut document = stored();
        document.fields.insert(field.to_owned(), Value { value_type: Some(value) });
        document
    }

    #[test]
    fn what_is_written_can_be_read() {
        let record = read(stored()).unwrap();
        assert_eq!(record.key.expose(), "job:7");
        assert_eq!(record.acquired_at.as_millis(), 1000);
        assert_eq!(record.expires_at.as_millis(), 31_000);
        assert_eq!(record.fence.get(), 7);
        assert!(!record.is_polled);
        assert_eq!(text(&stored().fields, HOLDER), Some("web-1"));
        assert_eq!(text(&stored().fields, "note"), Some("run 4"));
    }

    #[test]
    fn a_lock_of_a_client_that_knows_no_holders_has_none() {
        let mut document = stored();
        document.fields.remove(HOLDER);
        assert!(read(document).unwrap().is_polled);
        let holder = with(HOLDER, ValueType::StringValue(String::new()));
        assert!(!read(holder).unwrap().is_polled, "turned off");
    }

    #[test]
    fn whole_doubles_are_times_too() {
        let record = read(with(EXPIRES_AT, ValueType::DoubleValue(1.5e12))).unwrap();
        assert_eq!(record.expires_at.as_millis(), 1_500_000_000_000);
    }

    #[test]
    fn what_makes_no_sense_is_corrupt_and_names_no_key() {
        use ValueType::{BooleanValue, DoubleValue, IntegerValue, NullValue, StringValue};
        let mut wrong = vec![
            with(EXPIRES_AT, IntegerValue(-1)),
            with(EXPIRES_AT, IntegerValue(i64::MAX)),
            with(EXPIRES_AT, DoubleValue(0.5)),
            with(EXPIRES_AT, DoubleValue(-1.0)),
            with(EXPIRES_AT, DoubleValue(1e300)),
            with(EXPIRES_AT, DoubleValue(f64::NAN)),
            with(EXPIRES_AT, StringValue("31000".to_owned())),
            with(ACQUIRED_AT, NullValue(0)),
            with(LOCK_ID, StringValue("short".to_owned())),
            with(LOCK_ID, BooleanValue(true)),
            with(KEY, StringValue(String::new())),
            with(KEY, StringValue("job:8".to_owned())),
            with(FENCE, StringValue("7".to_owned())),
            with(FENCE, IntegerValue(7)),
            Document { update_time: None, ..stored() },
        ];
        for field in [EXPIRES_AT, ACQUIRED_AT, LOCK_ID, KEY, FENCE] {
            let mut document = stored();
            document.fields.remove(field);
            wrong.push(document);
        }
        for document in wrong {
            let Err(error) = read(document) else { panic!("a lock was read") };
            assert_eq!(error.code(), syncguard_core::ErrorCode::Internal);
            assert!(!format!("{error:?}").contains("job:7"), "{error:?}");
            assert!(error.message().contains(&hash_key("job:7").to_string()), "{error}");
        }
    }
}
