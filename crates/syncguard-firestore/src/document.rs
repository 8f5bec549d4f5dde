//! The documents of locks and counters, with the same fields that the TypeScript library writes.

use std::collections::HashMap;

use gcloud_sdk::google::firestore::v1::precondition::ConditionType;
use gcloud_sdk::google::firestore::v1::value::ValueType;
use gcloud_sdk::google::firestore::v1::write::Operation;
use gcloud_sdk::google::firestore::v1::{Document, DocumentMask, Precondition, Value, Write};
use gcloud_sdk::prost_types;
use syncguard_core::authoring::{corrupt_record, hash_key};
use syncguard_core::contract::{Holder, is_live};
use syncguard_core::{Fence, Key, LockError, LockId, LockInfo, Timestamp};

use crate::names::{lock_id_of, storage_key_of};

/// The field by which a lock is found without its key.
pub(crate) const LOCK_ID: &str = "lockId";
const EXPIRES_AT: &str = "expiresAtMs";
const ACQUIRED_AT: &str = "acquiredAtMs";
pub(crate) const KEY: &str = "key";
const FENCE: &str = "fence";
pub(crate) const HOLDER: &str = "holder";
pub(crate) const KEY_DEBUG: &str = "keyDebug";

/// One state of one document. A write with this precondition succeeds only if no newer state exists.
#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) updated: prost_types::Timestamp,
}

impl Version {
    /// Returns whether this is the same document at a later time.
    pub(crate) fn is_later_than(&self, other: &Self) -> bool {
        let time = |version: &Self| (version.updated.seconds, version.updated.nanos);
        self.name == other.name && time(self) > time(other)
    }
}

/// A stored lock.
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) lock_id: LockId,
    pub(crate) acquired_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) fence: Fence,
    /// True if the document has the field; the TypeScript library does not write it.
    pub(crate) has_holder: bool,
    pub(crate) holder: Option<Holder>,
    pub(crate) version: Version,
}

impl Record {
    /// # Errors
    ///
    /// `Internal` if the document is not a valid lock.
    pub(crate) fn read(document: Document) -> Result<Self, LockError> {
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
        Ok(Self {
            key,
            lock_id: text(&fields, LOCK_ID)
                .and_then(|id| LockId::new(id).ok())
                .ok_or_else(|| corrupt("lockId is not a lock id"))?,
            acquired_at: time(ACQUIRED_AT, "acquiredAtMs is not a time")?,
            expires_at: time(EXPIRES_AT, "expiresAtMs is not a time")?,
            fence: text(&fields, FENCE)
                .and_then(|fence| fence.parse().ok())
                .ok_or_else(|| corrupt("fence is not 15 digits"))?,
            has_holder: text(&fields, HOLDER).is_some(),
            holder: Holder::from_fields(|name| text(&fields, name)),
            version: Version {
                updated: update_time.ok_or_else(|| corrupt("it has no update time"))?,
                name,
            },
        })
    }

    pub(crate) fn is_live(&self, now: Timestamp) -> bool {
        is_live(self.expires_at, now)
    }

    pub(crate) fn into_info(self) -> LockInfo {
        LockInfo::new(self.key, self.lock_id, self.acquired_at, self.expires_at, self.fence)
            .with_holder(self.holder)
    }

    /// Makes the document of a lock that is about to be taken. `times` are acquisition and expiry.
    pub(crate) fn document(
        name: String,
        key: &Key,
        lock_id: LockId,
        times: (Timestamp, Timestamp),
        fence: Fence,
        holder: &Holder,
    ) -> Document {
        let fields = [
            (LOCK_ID, string(lock_id.expose())),
            (EXPIRES_AT, integer(times.1)),
            (ACQUIRED_AT, integer(times.0)),
            (KEY, string(key.expose())),
            (FENCE, string(&fence.to_string())),
        ];
        let people = holder.fields().map(|(name, text)| (name, string(text)));
        document(name, fields.into_iter().chain(people))
    }
}

/// The last fence of a key.
pub(crate) struct Counter {
    pub(crate) last: Fence,
    pub(crate) version: Version,
}

impl Counter {
    /// # Errors
    ///
    /// `Internal` if the document is not a valid fence counter.
    pub(crate) fn read(document: Document) -> Result<Self, LockError> {
        let corrupt = |name: &str, problem| {
            let hash = hash_key(storage_key_of(name));
            LockError::internal(format!("corrupt fence counter {hash}: {problem}"))
        };
        let last = text(&document.fields, FENCE).and_then(|fence| fence.parse().ok());
        Ok(Self {
            last: last.ok_or_else(|| corrupt(&document.name, "fence is not 15 digits"))?,
            version: Version {
                updated: document
                    .update_time
                    .ok_or_else(|| corrupt(&document.name, "it has no update time"))?,
                name: document.name,
            },
        })
    }

    pub(crate) fn document(name: String, key: &Key, last: Fence) -> Document {
        document(name, [(FENCE, string(&last.to_string())), (KEY_DEBUG, string(key.expose()))])
    }
}

/// Returns the highest known fence of a key.
pub(crate) fn last_fence(lock: Option<&Record>, counter: Option<&Counter>, key: &Key) -> Fence {
    Fence::last_of(counter.map(|counter| counter.last), lock.map(|lock| lock.fence), key)
}

/// Writes a document, if the stored one still has the version that was read, or is still absent.
pub(crate) fn put(document: Document, seen: Option<Version>) -> Write {
    let condition =
        seen.map_or(ConditionType::Exists(false), |seen| ConditionType::UpdateTime(seen.updated));
    write(Operation::Update(document), condition)
}

/// Writes only a lock's expiry, if the document still has this version.
pub(crate) fn put_expiry(seen: Version, expires_at: Timestamp) -> Write {
    let condition = ConditionType::UpdateTime(seen.updated);
    let document = document(seen.name, [(EXPIRES_AT, integer(expires_at))]);
    let mask = DocumentMask { field_paths: vec![EXPIRES_AT.to_owned()] };
    Write { update_mask: Some(mask), ..write(Operation::Update(document), condition) }
}

/// Deletes a document, if it still has this version.
pub(crate) fn delete(seen: Version) -> Write {
    write(Operation::Delete(seen.name), ConditionType::UpdateTime(seen.updated))
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
        let key = Key::new("job:7").unwrap();
        let id = LockId::new("apesXHOdi5wMq4V2M0-VRg").unwrap();
        let time = |millis| Timestamp::from_millis(millis).unwrap();
        let times = (time(1000), time(31_000));
        let holder = Holder::new("web-1").unwrap().with_note("run 4").unwrap();
        let fence = Fence::new(7).unwrap();
        let document = Record::document(NAME.to_owned(), &key, id, times, fence, &holder);
        Document { update_time: Some(prost_types::Timestamp::default()), ..document }
    }

    fn with(field: &str, value: ValueType) -> Document {
        let mut document = stored();
        document.fields.insert(field.to_owned(), Value { value_type: Some(value) });
        document
    }

    #[test]
    fn what_is_written_can_be_read() {
        let record = Record::read(stored()).unwrap();
        assert_eq!(record.key.expose(), "job:7");
        assert_eq!(record.acquired_at.as_millis(), 1000);
        assert_eq!(record.expires_at.as_millis(), 31_000);
        assert_eq!(record.fence.get(), 7);
        assert_eq!(record.version.name, NAME);
        assert!(record.has_holder);
        assert_eq!(text(&stored().fields, HOLDER), Some("web-1"));
        assert_eq!(text(&stored().fields, "note"), Some("run 4"));
    }

    #[test]
    fn a_lock_of_a_client_that_knows_no_holders_has_none() {
        let mut document = stored();
        document.fields.remove(HOLDER);
        assert!(!Record::read(document).unwrap().has_holder);
        let holder = with(HOLDER, ValueType::StringValue(String::new()));
        assert!(Record::read(holder).unwrap().has_holder, "turned off");
    }

    #[test]
    fn only_the_same_document_can_be_later() {
        let at = |name: &str, seconds, nanos| {
            let updated = prost_types::Timestamp { seconds, nanos };
            Version { name: name.to_owned(), updated }
        };
        let before = [("x", 4, 9000), ("x", 5, 0), ("x", 5, 1000), ("x", 5, 2000), ("y", 1, 0)];
        let is_later = before.map(|(name, seconds, nanos)| {
            at("x", 5, 1000).is_later_than(&at(name, seconds, nanos))
        });
        assert_eq!(is_later, [true, true, false, false, false]);
    }

    #[test]
    fn whole_doubles_are_times_too() {
        let record = Record::read(with(EXPIRES_AT, ValueType::DoubleValue(1.5e12))).unwrap();
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
            let Err(error) = Record::read(document) else { panic!("a lock was read") };
            assert_eq!(error.code(), syncguard_core::ErrorCode::Internal);
            assert!(!format!("{error:?}").contains("job:7"), "{error:?}");
            assert!(error.message().contains(&hash_key("job:7").to_string()), "{error}");
        }
    }
}
