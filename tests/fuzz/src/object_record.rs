//! Objects in a bucket.

use serde_json::Value as Json;
use syncguard_object_store::ErrorCode;
use syncguard_object_store::fuzzing::read_lock;

/// Any bytes as the object of a key.
pub fn check_object_record(input: &[u8]) {
    let fields: Json = serde_json::from_slice(input).unwrap_or_default();
    let key = fields["key"].as_str().unwrap_or("job");
    match read_lock(key, input) {
        Ok(None) => assert!(fields["lock"].is_null()),
        Ok(Some(info)) => {
            let (lock, fields) = (info, &fields["lock"]);
            assert_eq!(fields["lockId"], lock.lock_id.expose());
            assert_eq!(fields["fence"], lock.fence.to_string());
            assert_eq!(fields["expiresAtMs"], lock.expires_at.as_millis());
            assert_eq!(fields["acquiredAtMs"], lock.acquired_at.as_millis());
        }
        // Of a text that is no key, and of all else that is no record.
        Err(error) => assert!(
            matches!(error.code(), ErrorCode::Internal | ErrorCode::InvalidArgument),
            "{error:?}"
        ),
    }
}
