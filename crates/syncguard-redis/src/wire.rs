//! What the scripts answer.

use fred::types::Value;
use syncguard_core::{
    AcquireResult, Acquired, ExtendResult, Fence, Key, LockError, LockId, LockInfo, NotHeld,
    ReleaseResult, Timestamp, corrupt_record,
};

const NOT_FOUND: i64 = 0;
const RELEASED: i64 = 1;
const EXPIRED: i64 = 2;

/// The answer of `acquire.lua` to a request with this lock id.
pub(crate) fn acquired(answer: Value, lock_id: LockId) -> Result<AcquireResult, LockError> {
    match answer {
        Value::Integer(NOT_FOUND) => Ok(AcquireResult::Locked),
        Value::String(granted) => parse_granted(&granted, lock_id).ok_or_else(unintelligible),
        other => Err(refusal(other)),
    }
}

/// `<lock id><fence><expiry>`. The lock id is there so that an answer to someone else, should a
/// driver or a proxy ever confuse them, grants nothing.
fn parse_granted(granted: &str, lock_id: LockId) -> Option<AcquireResult> {
    let granted = granted.strip_prefix(lock_id.expose())?;
    let (fence, expires_at) = granted.split_at_checked(Fence::DIGITS)?;
    let acquired = Acquired::new(lock_id, timestamp(expires_at)?, fence.parse().ok()?);
    Some(AcquireResult::Acquired(acquired))
}

/// The answer of `release.lua`.
pub(crate) fn released(answer: Value) -> Result<ReleaseResult, LockError> {
    match answer {
        Value::Integer(RELEASED) => Ok(ReleaseResult::Released),
        Value::Integer(EXPIRED) => Ok(ReleaseResult::NotHeld(NotHeld::Expired)),
        Value::Integer(NOT_FOUND) => Ok(ReleaseResult::NotHeld(NotHeld::NotFound)),
        other => Err(refusal(other)),
    }
}

/// The answer of `extend.lua`.
pub(crate) fn extended(answer: Value) -> Result<ExtendResult, LockError> {
    match answer {
        Value::String(expires_at) => {
            let expires_at = timestamp(&expires_at).ok_or_else(unintelligible)?;
            Ok(ExtendResult::Extended { expires_at })
        }
        Value::Integer(EXPIRED) => Ok(ExtendResult::NotHeld(NotHeld::Expired)),
        Value::Integer(NOT_FOUND) => Ok(ExtendResult::NotHeld(NotHeld::NotFound)),
        other => Err(refusal(other)),
    }
}

/// The answer of `is_locked.lua`.
pub(crate) fn locked(answer: Value) -> Result<bool, LockError> {
    match answer {
        Value::Integer(0) => Ok(false),
        Value::Integer(1) => Ok(true),
        other => Err(refusal(other)),
    }
}

/// The answer of `lookup_by_key.lua` and `lookup_by_id.lua`; `name` is that of the record they were given.
pub(crate) fn found(answer: Value, name: &str) -> Result<Option<LockInfo>, LockError> {
    match answer {
        Value::Integer(NOT_FOUND) => Ok(None),
        Value::Array(fields) if fields.len() == 5 => {
            let lock = parse_lock(&fields);
            lock.map(Some).ok_or_else(|| corrupt_record(name, "its key is not one"))
        }
        other => Err(refusal(other)),
    }
}

fn parse_lock(fields: &[Value]) -> Option<LockInfo> {
    let [key, lock_id, fence, acquired_at, expires_at] = fields else { return None };
    Some(LockInfo::new(
        Key::new(key.as_str()?).ok()?,
        LockId::new(lock_id.as_str()?).ok()?,
        timestamp(&acquired_at.as_str()?)?,
        timestamp(&expires_at.as_str()?)?,
        fence.as_str()?.parse().ok()?,
    ))
}

fn timestamp(millis: &str) -> Option<Timestamp> {
    Timestamp::from_millis(millis.parse().ok()?).ok()
}

/// `{ problem, name of the record }`; the numbers are those of `record.lua` and `acquire.lua`.
fn refusal(answer: Value) -> LockError {
    let Value::Array(parts) = answer else { return unintelligible() };
    let [Value::Integer(problem), name] = parts.as_slice() else { return unintelligible() };
    // A name that is not UTF-8 was not given by this library; its hash is that of nothing.
    let name = name.as_str().unwrap_or_default();
    match problem {
        -1 => corrupt_record(&name, "it is not a string"),
        -2 => corrupt_record(&name, "it is not a JSON object"),
        -3 => corrupt_record(&name, "a field is missing or malformed"),
        -4 => corrupt_record(&name, "a time makes no sense"),
        -5 => corrupt_record(&name, "the fence counter is not a positive integer"),
        -6 => Fence::exhausted(),
        -7 => LockError::invalid_argument(
            "the lock id is in use by another key; every acquisition needs a fresh one",
        ),
        _ => unintelligible(),
    }
}

fn unintelligible() -> LockError {
    LockError::internal("the server's answer to a script makes no sense").with_unknown_outcome()
}
