//! Reads the answers of the scripts.

use std::time::Duration;

use fred::types::Value;
use syncguard_core::authoring::recipes::Refusal;
use syncguard_core::authoring::{LOCK_ID_IN_USE, corrupt_record};
use syncguard_core::contract::{AcquireResult, Acquired, Holder};
use syncguard_core::{
    Contention, ExtendResult, Fence, Key, LockError, LockId, LockInfo, NotHeld, ReleaseResult,
    Timestamp,
};

use crate::names::Section;

const NOT_FOUND: i64 = code("NOT_FOUND");
const RELEASED: i64 = code("RELEASED");
const REPEATED: i64 = code("REPEATED");
const EXPIRED: i64 = code("EXPIRED");
const MISMATCH: i64 = code("MISMATCH");
const POLLED: i64 = code("POLLED");
const TAKEN: i64 = code("TAKEN");
const EARLY: i64 = code("EARLY");
const WRONG_TYPE: i64 = code("WRONG_TYPE");
const NOT_JSON: i64 = code("NOT_JSON");
const BAD_FIELD: i64 = code("BAD_FIELD");
const ABSURD_NUMBER: i64 = code("ABSURD_NUMBER");
const FENCE_CORRUPT: i64 = code("FENCE_CORRUPT");
const FENCE_EXHAUSTED: i64 = code("FENCE_EXHAUSTED");
const ID_IN_USE: i64 = code("LOCK_ID_IN_USE");
const LATE: i64 = code("LATE");

/// The server's time, if a script came after its deadline and wrote nothing.
pub(crate) fn refused_at(answer: &Value) -> Option<Timestamp> {
    pair(answer).filter(|(code, _)| *code == LATE).map(|(_, time)| time)
}

/// Reads the answer to `TIME`: seconds, and the microseconds of the current second. Envoy 1.40 answers by itself, and its
/// second number has the seconds as well.
pub(crate) fn time(answer: &Value) -> Option<Timestamp> {
    let Value::Array(parts) = answer else { return None };
    let [seconds, micros] = parts.as_slice() else { return None };
    let (seconds, micros) = (seconds.as_u64()?, micros.as_u64()?);
    Timestamp::from_millis(seconds.checked_mul(1000)?.checked_add(micros % 1_000_000 / 1000)?).ok()
}

/// The answer to an acquire.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AcquireReply {
    pub(crate) result: AcquireResult,
    /// True if this sending set the expiry. Otherwise an earlier sending did.
    pub(crate) is_fresh: bool,
}

/// Reads the answer of `acquire.lua` to a request with this lock id.
pub(crate) fn acquired(answer: Value, lock_id: LockId) -> Result<AcquireReply, LockError> {
    let granted = |text: &str, is_fresh| {
        let result = parse_granted(text, lock_id).ok_or_else(unintelligible)?;
        Ok(AcquireReply { result, is_fresh })
    };
    let locked = |left: i64, is_polled| {
        let left = u64::try_from(left).map_err(|_| unintelligible())?;
        let held = Contention::free_within(Duration::from_millis(left));
        let result = AcquireResult::Busy(held.with_polled(is_polled));
        Ok(AcquireReply { result, is_fresh: false })
    };
    let refused = |refusal| {
        let result = AcquireResult::Refused(refusal);
        Ok(AcquireReply { result, is_fresh: false })
    };
    match &answer {
        Value::Integer(left) => locked(*left, false),
        Value::String(text) => granted(text, true),
        Value::Array(parts) => match parts.as_slice() {
            [Value::Integer(REPEATED), Value::String(text)] => granted(text, false),
            [Value::Integer(POLLED), Value::Integer(left)] => locked(*left, true),
            [Value::Integer(TAKEN), digits] => {
                let counter = counter(digits)?.ok_or_else(unintelligible)?;
                refused(Refusal::Taken { counter })
            }
            [Value::Integer(EARLY), Value::Integer(wait)] => {
                let wait = u64::try_from(*wait).map_err(|_| unintelligible())?;
                refused(Refusal::TooEarly { wait: Duration::from_millis(wait) })
            }
            _ => Err(refusal(answer)),
        },
        _ => Err(refusal(answer)),
    }
}

/// Reads `<lock id><fence><expiry>`. The lock id makes sure that the answer to another request, if a driver or a
/// proxy ever mixes them up, grants nothing.
fn parse_granted(granted: &str, lock_id: LockId) -> Option<AcquireResult> {
    let granted = granted.strip_prefix(lock_id.expose())?;
    let (fence, expires_at) = granted.split_at_checked(Fence::DIGITS)?;
    let acquired = Acquired::new(lock_id, timestamp(expires_at)?, fence.parse().ok()?);
    Some(AcquireResult::Acquired(acquired))
}

/// Returns whether `release.lua` has released the lock.
pub(crate) fn is_released(answer: &Value) -> bool {
    *answer == Value::Integer(RELEASED)
}

/// Reads the answer of `release.lua`. If there was nothing to release, the result has the server's time.
pub(crate) fn released(answer: Value) -> Result<(ReleaseResult, Option<Timestamp>), LockError> {
    if is_released(&answer) {
        return Ok((ReleaseResult::Released, None));
    }
    let (not_held, time) = not_held(&answer).ok_or_else(|| refusal(answer))?;
    Ok((ReleaseResult::NotHeld(not_held), Some(time)))
}

/// Reads the answer of `extend.lua`. If there was nothing to extend, the result has the server's time.
pub(crate) fn extended(answer: Value) -> Result<(ExtendResult, Option<Timestamp>), LockError> {
    if let Value::Integer(_) = answer {
        let expires_at = moment(&answer).ok_or_else(unintelligible)?;
        return Ok((ExtendResult::Extended { expires_at }, None));
    }
    if let Some((MISMATCH, expires_at)) = pair(&answer) {
        return Ok((ExtendResult::Mismatch { expires_at }, None));
    }
    let (not_held, time) = not_held(&answer).ok_or_else(|| refusal(answer))?;
    Ok((ExtendResult::NotHeld(not_held), Some(time)))
}

/// Reads the answer of `extend.lua` about so many locks.
pub(crate) fn all_extended(
    answer: Value,
    count: usize,
) -> Result<Vec<Option<Timestamp>>, LockError> {
    match answer {
        Value::Array(all) if all.len() == count => Ok(all.iter().map(moment).collect()),
        other => Err(refusal(other)),
    }
}

/// Reads `{ reason, time }`.
fn not_held(answer: &Value) -> Option<(NotHeld, Timestamp)> {
    match pair(answer)? {
        (EXPIRED, time) => Some((NotHeld::Expired, time)),
        (NOT_FOUND, time) => Some((NotHeld::NotFound, time)),
        _ => None,
    }
}

/// Reads `{ code, time }`.
fn pair(answer: &Value) -> Option<(i64, Timestamp)> {
    let Value::Array(parts) = answer else { return None };
    let [Value::Integer(code), time] = parts.as_slice() else { return None };
    Some((*code, moment(time)?))
}

fn moment(value: &Value) -> Option<Timestamp> {
    let Value::Integer(millis) = value else { return None };
    Timestamp::from_millis(u64::try_from(*millis).ok()?).ok()
}

/// Reads the answer of `is_locked.lua`.
pub(crate) fn locked(answer: Value) -> Result<bool, LockError> {
    match answer {
        Value::Integer(0) => Ok(false),
        Value::Integer(1) => Ok(true),
        other => Err(refusal(other)),
    }
}

/// Returns whether this is the answer of `lookup_by_key.lua` about a lock that was written without a holder.
pub(crate) fn lacks_holder(answer: &Value) -> bool {
    let Value::Array(fields) = answer else { return false };
    fields.len() >= LOCK_FIELDS && text_for_people(fields, HOLDER).is_none()
}

/// The number of fields of a lock that are not for people.
const LOCK_FIELDS: usize = 5;

/// The field for people that every record of this library has.
const HOLDER: &str = "holder";

/// The text of a field for people.
fn text_for_people<'a>(lock: &'a [Value], name: &str) -> Option<&'a str> {
    let (fields, _) = lock.get(LOCK_FIELDS..)?.as_chunks::<2>();
    let [_, text] = fields.iter().find(|[field, _]| text_of(field) == Some(name))?;
    text_of(text)
}

fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// Reads the answer of `lookup_by_key.lua` about the record with this name. With its section, refuses a record that
/// another key has written.
pub(crate) fn found(
    answer: Value,
    section: Option<&Section>,
    name: &str,
) -> Result<Option<LockInfo>, LockError> {
    let fields = match answer {
        Value::Integer(NOT_FOUND) => return Ok(None),
        Value::Array(fields) if fields.len() >= LOCK_FIELDS => fields,
        other => return Err(refusal(other)),
    };
    let corrupt = |problem| corrupt_record(name, problem);
    let key = fields[0].as_str().and_then(|key| Key::new(&*key).ok());
    let key = key.ok_or_else(|| corrupt("its key is not one"))?;
    if let Some(section) = section
        && section.unchecked_lock_name(&key)? != name
    {
        return Err(corrupt("its key is that of another record"));
    }
    parse_lock(key, &fields).map(Some).ok_or_else(|| corrupt("a field is missing or malformed"))
}

/// Reads the answer of `lookup_by_id.lua` to a request with the index entry of this name.
pub(crate) fn found_by_id(
    mut answer: Value,
    section: &Section,
    index: &str,
) -> Result<Option<LockInfo>, LockError> {
    if let Value::Array(parts) = &mut answer
        && let [Value::String(name), lock @ Value::Array(_)] = parts.as_mut_slice()
    {
        return found(lock.take(), Some(section), name);
    }
    found(answer, Some(section), index)
}

fn parse_lock(key: Key, fields: &[Value]) -> Option<LockInfo> {
    let [_, lock_id, fence, acquired_at, expires_at, ..] = fields else { return None };
    let info = LockInfo::new(
        key,
        LockId::new(lock_id.as_str()?).ok()?,
        timestamp(&acquired_at.as_str()?)?,
        timestamp(&expires_at.as_str()?)?,
        fence.as_str()?.parse().ok()?,
    );
    Some(info.with_holder(Holder::from_fields(|name| text_for_people(fields, name))))
}

fn timestamp(millis: &str) -> Option<Timestamp> {
    Timestamp::from_millis(millis.parse().ok()?).ok()
}

/// Reads a fence counter in an answer of `counters.lua` or `raise_counter.lua`.
pub(crate) fn counter(answer: &Value) -> Result<Option<Fence>, LockError> {
    match answer {
        Value::Integer(NOT_FOUND) => Ok(None),
        Value::String(digits) => {
            // A counter beyond the range is exhausted, and not corrupt.
            let counter = digits.parse().ok().and_then(|number| Fence::new(number).ok());
            counter.map(Some).ok_or_else(Fence::exhausted)
        }
        other => Err(refusal(other.clone())),
    }
}

/// Reads `{ problem, name of the record }`.
fn refusal(answer: Value) -> LockError {
    let Value::Array(parts) = answer else { return unintelligible() };
    let [Value::Integer(problem), name] = parts.as_slice() else { return unintelligible() };
    // A name of this library is always UTF-8. For another name, the error has the hash of an empty text.
    let name = name.as_str().unwrap_or_default();
    match *problem {
        WRONG_TYPE => corrupt_record(&name, "it is not a string"),
        NOT_JSON => corrupt_record(&name, "it is not a JSON object"),
        BAD_FIELD => corrupt_record(&name, "a field is missing or malformed"),
        ABSURD_NUMBER => corrupt_record(&name, "a time makes no sense"),
        FENCE_CORRUPT => corrupt_record(&name, "the fence counter is not a positive integer"),
        FENCE_EXHAUSTED => Fence::exhausted(),
        ID_IN_USE => LockError::invalid_argument(LOCK_ID_IN_USE),
        _ => unintelligible(),
    }
}

/// The code of this name in `record.lua`, which has all codes, as `local NAME = code`. A name that is not there does not
/// compile.
const fn code(name: &str) -> i64 {
    const LUA: &[u8] = include_bytes!("lua/record.lua");
    let (mut line, name) = (0, name.as_bytes());
    while !is_at(LUA, line, b"local ")
        || !is_at(LUA, line + 6, name)
        || !is_at(LUA, line + 6 + name.len(), b" = ")
    {
        while LUA[line] != b'\n' {
            line += 1;
        }
        line += 1;
        assert!(line < LUA.len(), "record.lua has no code of this name");
    }
    let mut at = line + 6 + name.len() + 3;
    let is_negative = LUA[at] == b'-';
    if is_negative {
        at += 1;
    }
    let mut code = 0;
    while LUA[at] != b'\n' {
        assert!(LUA[at].is_ascii_digit(), "a code is a number");
        code = code * 10 + (LUA[at] - b'0') as i64;
        at += 1;
    }
    if is_negative { -code } else { code }
}

/// Whether the text has this part at this place.
const fn is_at(text: &[u8], place: usize, part: &[u8]) -> bool {
    let mut at = 0;
    while at < part.len() && place + at < text.len() && text[place + at] == part[at] {
        at += 1;
    }
    at == part.len()
}

pub(crate) fn unintelligible() -> LockError {
    LockError::internal("the server's answer to a script makes no sense").with_unknown_outcome()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grant_of_another_request_is_no_answer_to_this_one() {
        let [own, other] = [(); 2].map(|()| LockId::generate().unwrap());
        let grant = Value::from(format!("{}{:015}1700000000000", other.expose(), 7));
        for answer in [grant.clone(), Value::Array(vec![REPEATED.into(), grant])] {
            assert!(acquired(answer.clone(), other).unwrap().result.is_acquired());
            assert!(acquired(answer, own).unwrap_err().is_outcome_unknown());
        }
    }

    /// Otherwise the deadline of the first write would be in the year 2083.
    #[test]
    fn the_time_of_a_proxy_is_the_same_time() {
        for micros in ["141288", "1795866162141288"] {
            let answer = Value::Array(vec!["1795866162".into(), micros.into()]);
            assert_eq!(time(&answer).map(Timestamp::as_millis), Some(1_795_866_162_141));
        }
    }
}
