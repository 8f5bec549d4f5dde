//! Redaction, and the properties of errors and values.

use std::error::Error;
use std::fmt;

use syncguard_core::authoring::hash_key;
use syncguard_core::contract::HashId;
use syncguard_core::inventory::{FenceCounter, ListRequest, Page};
use syncguard_core::{ErrorCode, Fence, Key, LockConfig, LockError, LockId, LockInfo, Timestamp};

const KEY: &str = "customer:4711:iban";
const LOCK_ID: &str = "c2VjcmV0LWxvY2staWQtMQ";

fn key() -> Key {
    Key::new(KEY).unwrap()
}

fn lock_id() -> LockId {
    LockId::new(LOCK_ID).unwrap()
}

fn time(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

fn assert_redacted(printed: &str) {
    assert!(!printed.contains("4711") && !printed.contains(LOCK_ID), "{printed}");
}

fn page_of<T>(entry: Result<T, ()>) -> Page<T> {
    let mut page = Page::new(None);
    page.push(KEY, entry);
    page
}

/// A case of the conformance suite prints the requests and answers of operations.
#[test]
fn no_debug_output_shows_a_key_or_a_lock_id() {
    let fence = Fence::new(7).unwrap();
    let info = LockInfo::new(key(), lock_id(), time(1), time(2), fence);
    let error = LockError::internal("broken").with_key(&key()).with_lock_id(lock_id());
    let printed = [
        format!("{:?} {:?}", key(), lock_id()),
        format!("{:?}", LockConfig::new(KEY)),
        format!("{:?}", ListRequest::new().with_prefix(KEY)),
        format!("{:?}", ListRequest::new().behind(KEY)),
        format!("{:?}", page_of(Ok(info.clone()))),
        format!("{:?}", page_of::<LockInfo>(Err(()))),
        format!("{:?}", page_of(Ok(FenceCounter::new(key(), fence)))),
        format!("{error} {error:?} {error:#?}"),
    ];
    for printed in printed {
        assert_redacted(&printed);
        assert!(
            printed.contains(&hash_key(KEY).to_string())
                || printed.contains(&hash_key(LOCK_ID).to_string())
        );
    }
    assert_eq!(error.key().unwrap().expose(), KEY);
    assert_eq!(error.lock_id().unwrap().expose(), LOCK_ID);
    assert_eq!((info.key.expose(), info.lock_id.expose()), (KEY, LOCK_ID));
}

/// A driver's error whose `Debug` shows a secret.
#[derive(Debug)]
struct DriverError {
    #[allow(dead_code, reason = "printed by Debug")]
    url: &'static str,
    source: std::io::Error,
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("connection failed")
    }
}

impl Error for DriverError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

#[test]
fn an_error_keeps_its_chain_of_causes_without_the_drivers_debug() {
    let driver = DriverError {
        url: "redis://user:hunter2@host",
        source: std::io::ErrorKind::BrokenPipe.into(),
    };
    let error = LockError::new(ErrorCode::ServiceUnavailable, "no connection").with_source(&driver);
    let first = error.source().unwrap();
    assert_eq!(first.to_string(), "connection failed");
    assert_eq!(first.source().unwrap().to_string(), "broken pipe");
    for printed in [format!("{error:?}"), format!("{error:#?}"), format!("{first:?}")] {
        assert!(!printed.contains("hunter2"), "{printed}");
        assert!(
            printed.contains("connection failed") && printed.contains("broken pipe"),
            "{printed}"
        );
    }
    assert_eq!(error.clone().to_string(), "no connection (ServiceUnavailable)");
}

#[test]
fn every_code_has_a_name_and_says_whether_a_retry_can_help() {
    let codes = [
        (ErrorCode::ServiceUnavailable, "ServiceUnavailable", true),
        (ErrorCode::AuthFailed, "AuthFailed", false),
        (ErrorCode::InvalidArgument, "InvalidArgument", false),
        (ErrorCode::RateLimited, "RateLimited", true),
        (ErrorCode::NetworkTimeout, "NetworkTimeout", true),
        (ErrorCode::AcquisitionTimeout, "AcquisitionTimeout", true),
        (ErrorCode::Aborted, "Aborted", false),
        (ErrorCode::Internal, "Internal", false),
    ];
    for (code, name, retryable) in codes {
        assert_eq!(code.to_string(), name);
        assert_eq!(LockError::new(code, "").is_retryable(), retryable);
        assert!(!LockError::new(code, "").is_outcome_unknown());
    }
}

#[test]
fn hash_ids_are_read_back_strictly() {
    let hash = hash_key(KEY);
    assert_eq!(hash.to_string().parse::<HashId>().unwrap(), hash);
    for bad in [
        "",
        "f52f328d6111ae89dbcfcb9",
        "f52f328d6111ae89dbcfcb999",
        "F52F328D6111AE89DBCFCB99",
        "é".repeat(12).as_str(),
    ] {
        assert_eq!(bad.parse::<HashId>().unwrap_err().code(), ErrorCode::InvalidArgument, "{bad}");
    }
}

#[test]
fn fences_keep_their_thresholds() {
    assert_eq!(Fence::MAX.to_string(), "900000000000000");
    assert_eq!(Fence::WARN.to_string(), "090000000000000");
    assert_eq!(Fence::MAX.next().unwrap_err().code(), ErrorCode::Internal);
    assert_eq!(Fence::new(Fence::MAX.get() - 1).unwrap().next().unwrap(), Fence::MAX);
    assert!(Fence::new(1_000_000_000_000_000).is_err());
}

#[cfg(feature = "serde")]
#[test]
fn serde_writes_public_values_and_checks_them_when_it_reads() {
    use syncguard_core::Ttl;

    let fence = Fence::new(42).unwrap();
    let info = LockInfo::new(key(), lock_id(), time(1), time(2), fence);
    let json = serde_json::to_value(&info).unwrap();
    assert_redacted(&json.to_string());
    assert_eq!(
        json,
        serde_json::json!({
            "keyHash": hash_key(KEY).to_string(),
            "lockIdHash": hash_key(LOCK_ID).to_string(),
            "expiresAtMs": 2,
            "acquiredAtMs": 1,
            "fence": "000000000000042",
        })
    );
    assert_eq!(serde_json::from_value::<Fence>(json["fence"].clone()).unwrap(), fence);
    assert_eq!(serde_json::from_str::<Ttl>("30000").unwrap(), Ttl::DEFAULT);
    assert!(serde_json::from_str::<Ttl>("0").is_err());
    assert!(serde_json::from_str::<Fence>("\"42\"").is_err());
    assert!(serde_json::from_str::<Timestamp>("9007199254740992").is_err());
    assert!(serde_json::from_str::<HashId>("\"x\"").is_err());
}
