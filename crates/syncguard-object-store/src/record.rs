//! The object of a key: its lock, its fence counter, and what makes each state of it unlike all others.

use std::cmp::Ordering;
use std::sync::Arc;

use object_store::UpdateVersion;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use syncguard_core::authoring::conditional::{Counter, Record, StoredLock};
use syncguard_core::authoring::{corrupt_record, hash_key};
use syncguard_core::contract::Holder;
use syncguard_core::{Fence, Key, LockError, LockId, Timestamp};

/// The JSON of an object. Fields of later versions of this library are kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Body {
    key: String,
    /// The fence counter.
    fence: Fence15,
    /// One more with each write. Objects are never deleted, so it never comes back.
    revision: u64,
    /// New with each write. Some stores make the tag of the bytes, so that equal bytes would have equal tags.
    pub(crate) nonce: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lock: Option<Map<String, Value>>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

/// A text that no other write has.
///
/// # Errors
///
/// `Internal` if the operating system has no randomness to give.
pub(crate) fn nonce() -> Result<String, LockError> {
    LockId::generate().map(|random| random.expose().to_owned())
}

/// A fence in 15 digits, as in the records of the other stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Fence15(Fence);

impl TryFrom<String> for Fence15 {
    type Error = LockError;

    fn try_from(text: String) -> Result<Self, LockError> {
        text.parse().map(Self)
    }
}

impl From<Fence15> for String {
    fn from(fence: Fence15) -> Self {
        fence.0.to_string()
    }
}

const LOCK_ID: &str = "lockId";
const EXPIRES_AT: &str = "expiresAtMs";
const ACQUIRED_AT: &str = "acquiredAtMs";
const FENCE: &str = "fence";

impl Body {
    /// The body of a key's first object.
    pub(crate) fn first(key: &Key) -> Self {
        Self {
            key: key.expose().to_owned(),
            fence: Fence15(Fence::ZERO),
            revision: 0,
            nonce: String::new(),
            lock: None,
            more: Map::new(),
        }
    }

    /// The next state, which has its own nonce.
    ///
    /// # Errors
    ///
    /// `Internal` if the operating system has no randomness to give.
    pub(crate) fn next(&self) -> Result<Self, LockError> {
        let revision = self.revision.saturating_add(1);
        Ok(Self { revision, nonce: nonce()?, ..self.clone() })
    }

    pub(crate) fn count(&mut self, last: Fence) {
        self.fence = Fence15(last);
    }

    pub(crate) fn take(&mut self, record: &Record) {
        let fields = [
            (LOCK_ID, Value::from(record.lock_id.expose())),
            (EXPIRES_AT, record.expires_at.as_millis().into()),
            (ACQUIRED_AT, record.acquired_at.as_millis().into()),
            (FENCE, record.fence.to_string().into()),
        ];
        let people = record.holder.iter().flat_map(Holder::fields);
        let people = people.map(|(name, text)| (name, Value::from(text)));
        let fields = fields.into_iter().chain(people);
        self.lock = Some(fields.map(|(name, value)| (name.to_owned(), value)).collect());
    }

    pub(crate) fn extend(&mut self, expires_at: Timestamp) {
        if let Some(lock) = &mut self.lock {
            lock.insert(EXPIRES_AT.to_owned(), expires_at.as_millis().into());
        }
    }

    pub(crate) fn release(&mut self) {
        self.lock = None;
    }

    /// # Errors
    ///
    /// `Internal` if JSON cannot hold the record, which it always can.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, LockError> {
        serde_json::to_vec(self).map_err(|_| LockError::internal("a lock has no JSON"))
    }
}

/// One state of an object: what it has, and the tag that a write in its place states.
#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) body: Arc<Body>,
    pub(crate) tag: UpdateVersion,
}

impl Version {
    /// Reads the object with this name.
    ///
    /// # Errors
    ///
    /// `Internal` for an object that was not written as a key's object. Only the hash of the name gets into the error.
    pub(crate) fn read(name: &str, bytes: &[u8], tag: UpdateVersion) -> Result<Self, LockError> {
        let corrupt = |problem| corrupt_record(name, problem);
        let body: Body = serde_json::from_slice(bytes)
            .map_err(|_| corrupt("it is not the JSON of a key with its lock and its fence"))?;
        Ok(Self { body: Arc::new(body), tag })
    }

    /// The key, if the object has the name of this one.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub(crate) fn key(&self, name: &str) -> Result<Key, LockError> {
        let key = Key::new(&self.body.key).ok().filter(|key| key.expose() == self.body.key);
        key.ok_or_else(|| corrupt_record(name, "key is not a key"))
    }

    /// # Errors
    ///
    /// As [`read`](Self::read), for an object that has another key.
    pub(crate) fn expect_key(&self, name: &str, key: &Key) -> Result<(), LockError> {
        let is_it = self.body.key == key.expose();
        if is_it { Ok(()) } else { Err(corrupt_record(name, "key is that of another object")) }
    }

    pub(crate) fn last(&self) -> Fence {
        self.body.fence.0
    }

    pub(crate) fn counter(&self) -> Counter<Self> {
        Counter { last: self.last(), version: self.clone() }
    }

    pub(crate) fn has_lock(&self) -> bool {
        self.body.lock.is_some()
    }

    /// The lock, if there is one.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub(crate) fn lock(
        &self,
        name: &str,
        key: &Key,
    ) -> Result<Option<StoredLock<Self>>, LockError> {
        self.expect_key(name, key)?;
        let corrupt = |problem| corrupt_record(name, problem);
        let Some(lock) = &self.body.lock else { return Ok(None) };
        let text = |field: &str| lock.get(field).and_then(Value::as_str);
        let time = |field, problem| {
            let millis = lock.get(field).and_then(Value::as_u64);
            let time = millis.and_then(|millis| Timestamp::from_millis(millis).ok());
            time.ok_or_else(|| corrupt(problem))
        };
        let record = Record {
            key: key.clone(),
            lock_id: text(LOCK_ID)
                .and_then(|id| LockId::new(id).ok())
                .ok_or_else(|| corrupt("lockId is not a lock id"))?,
            acquired_at: time(ACQUIRED_AT, "acquiredAtMs is not a time")?,
            expires_at: time(EXPIRES_AT, "expiresAtMs is not a time")?,
            fence: text(FENCE)
                .and_then(|fence| fence.parse().ok())
                .ok_or_else(|| corrupt("fence is not 15 digits"))?,
            holder: Holder::from_fields(text),
            // Only this library writes these objects.
            is_polled: false,
        };
        Ok(Some(StoredLock { record, version: self.clone() }))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        (self.body.revision, &self.body.nonce) == (other.body.revision, &other.body.nonce)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.body.revision.cmp(&other.body.revision) {
            // Of different histories, as after a bucket was restored.
            Ordering::Equal if self != other => None,
            order => Some(order),
        }
    }
}

impl std::fmt::Debug for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Version")
            .field("key", &hash_key(&self.body.key))
            .field("revision", &self.body.revision)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "locks/k/hash";
    const STORED: &str = r#"{"key":"job:7","fence":"000000000000009","revision":12,"nonce":"n","lock":{"acquiredAtMs":1000,"expiresAtMs":31000,"fence":"000000000000007","holder":"web-1","lockId":"apesXHOdi5wMq4V2M0-VRg","note":"run \"4\"","newer":[1]},"newer":{"a":1}}"#;

    fn read(text: &str) -> Result<(Version, Option<Record>), LockError> {
        let version =
            Version::read(NAME, text.as_bytes(), UpdateVersion { e_tag: None, version: None })?;
        let lock = version.lock(NAME, &version.key(NAME)?)?;
        Ok((version, lock.map(|held| held.record)))
    }

    #[test]
    fn what_is_written_can_be_read() {
        let (version, record) = read(STORED).unwrap();
        assert_eq!(version.last().get(), 9);
        let mut record = record.unwrap();
        assert_eq!((record.fence.get(), record.expires_at.as_millis()), (7, 31_000));
        let mut next = version.body.next().unwrap();
        assert!(next.revision == 13 && next.nonce.len() == 22);
        next.extend(Timestamp::from_millis(32_000).unwrap());
        // The fields of later versions stay, and all else as well.
        let (nonce, expected) =
            (next.nonce.clone(), STORED.replace("31000", "32000").replace(":12,", ":13,"));
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let written = String::from_utf8(next.bytes().unwrap()).unwrap();
        assert_eq!(json(&written.replace(&nonce, "n")), json(&expected));
        record.expires_at = Timestamp::from_millis(31_000).unwrap();
        next.take(&record);
        let (_, taken) = read(&String::from_utf8(next.bytes().unwrap()).unwrap()).unwrap();
        assert_eq!(taken.unwrap().into_info(), record.into_info());
        next.release();
        let free = String::from_utf8(next.bytes().unwrap()).unwrap();
        assert!(read(&free).unwrap().1.is_none() && !free.contains("apes"), "{free}");
    }

    #[test]
    fn what_makes_no_sense_is_corrupt_and_names_no_key() {
        for (right, wrong) in [
            (STORED, ""),
            (STORED, "[]"),
            ("31000", "-1"),
            ("31000", "0.5"),
            ("1000,", "\"1000\","),
            ("apesXHOdi5wMq4V2M0-VRg", "short"),
            ("\"job:7\"", "\"\""),
            ("\"job:7\"", "\"e\u{301}\""),
            ("000000000000007", "7"),
            ("\"000000000000009\"", "9"),
            (":12,", ":\"12\","),
            ("\"nonce\"", "\"nonces\""),
        ] {
            let Err(error) = read(&STORED.replace(right, wrong)) else { panic!("{wrong}") };
            assert_eq!(error.code(), syncguard_core::ErrorCode::Internal);
            assert!(!format!("{error:?}").contains("job:7"), "{error:?}");
            assert!(error.message().contains(&hash_key(NAME).to_string()), "{error}");
        }
        assert!(!format!("{:?}", read(STORED).unwrap().0).contains("job:7"));
    }

    #[test]
    fn each_state_of_an_object_is_later_than_those_before() {
        let (version, _) = read(STORED).unwrap();
        let next = |version: &Version| Version {
            body: version.body.next().unwrap().into(),
            tag: version.tag.clone(),
        };
        let (one, other) = (next(&version), next(&version));
        assert!(one > version && next(&one) > other && one == one.clone());
        assert!(one.partial_cmp(&other).is_none());
    }
}
