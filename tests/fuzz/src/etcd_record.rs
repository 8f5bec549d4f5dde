//! Records in etcd.

use serde_json::Value as Json;
use syncguard_etcd::ErrorCode;
use syncguard_etcd::simulated::read_lock;

/// Any bytes as the record of a lock.
pub fn check_etcd_record(input: &[u8]) {
    let fields: Json = serde_json::from_slice(input).unwrap_or_default();
    let key = fields["key"].as_str().unwrap_or("job");
    match read_lock(key, input.to_vec()) {
        Ok(lock) => {
            assert_eq!(fields["lockId"], lock.lock_id.expose());
            assert_eq!(fields["key"], lock.key.expose());
            assert_eq!(fields["fence"], lock.fence.to_string());
            assert_eq!(fields["expiresAtMs"], lock.expires_at.as_millis());
            assert_eq!(fields["acquiredAtMs"], lock.acquired_at.as_millis());
        }
        Err(error) => assert_eq!(error.code(), ErrorCode::Internal, "{error:?}"),
    }
}
