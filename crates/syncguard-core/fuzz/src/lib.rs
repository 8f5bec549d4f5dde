//! The rules that hold for any input at all: shared by the fuzz targets and the property tests.
//!
//! Each function panics on input that breaks a rule.

use std::str::FromStr;

use syncguard_core::authoring::{
    StorageLimits, make_fence_key, make_hashed_storage_key, make_storage_key,
};
use syncguard_core::authoring::{hash_key, hash_key_triple32};
use syncguard_core::{ErrorCode, Fence, Key, LockId};

/// The action of a target on an input, as it is in the files of the corpus.
pub type Check = fn(&[u8]);

/// Each target, by its name in `fuzz_targets` and `corpus`.
pub const TARGETS: [(&str, Check); 4] =
    [("fence", fence), ("key", key), ("lock_id", lock_id), ("storage_key", storage_key)];

/// [`check_key`] with all of the input.
pub fn key(input: &[u8]) {
    check_key(&String::from_utf8_lossy(input));
}

/// [`check_lock_id`] with all of the input.
pub fn lock_id(input: &[u8]) {
    check_lock_id(&String::from_utf8_lossy(input));
}

/// [`check_fences`] with two numbers, a line each, and the rest of the input.
pub fn fence(input: &[u8]) {
    let input = String::from_utf8_lossy(input);
    let mut lines = input.splitn(3, '\n');
    let (one, other) = (number(lines.next()), number(lines.next()));
    check_fences(one, other, lines.next().unwrap_or_default());
}

/// [`check_storage_key`] with the limit, the reserve and the prefix, a line each, and the rest of the input.
pub fn storage_key(input: &[u8]) {
    let input = String::from_utf8_lossy(input);
    let mut lines = input.splitn(4, '\n');
    let (limit, reserve): (u16, u8) = (number(lines.next()), number(lines.next()));
    let (prefix, key) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    check_storage_key(prefix, key, limit.into(), reserve.into());
}

fn number<T: FromStr + Default>(line: Option<&str>) -> T {
    line.and_then(|line| line.parse().ok()).unwrap_or_default()
}

/// A key is refused with a reason, or normalised for good.
pub fn check_key(text: &str) {
    match Key::new(text) {
        Ok(key) => {
            assert!((1..=Key::MAX_LENGTH_BYTES).contains(&key.expose().len()));
            assert!(!key.expose().contains('\0'));
            assert_eq!(Key::new(key.expose()).ok().as_ref(), Some(&key), "normalised twice");
            assert_eq!(key.hash_id(), hash_key(text));
            assert_eq!(key.hash_id().to_string().parse().ok(), Some(key.hash_id()));
        }
        Err(error) => {
            assert_eq!(error.code(), ErrorCode::InvalidArgument);
            assert!(text.len() < 24 || !error.to_string().contains(text), "an error shows the key");
        }
    }
    let _ = hash_key_triple32(text);
}

/// Each text of 22 base64url characters is a lock id, and no other text is one.
pub fn check_lock_id(text: &str) {
    let legal = text.len() == 22
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    match LockId::new(text) {
        Ok(lock_id) => {
            assert!(legal);
            assert_eq!(lock_id.expose(), text);
            assert!(!format!("{lock_id:?}").contains(text), "Debug shows the lock id");
        }
        Err(error) => {
            assert!(!legal);
            assert_eq!(error.code(), ErrorCode::InvalidArgument);
        }
    }
}

/// The order of fences is the order of their numbers and of their texts; text and number round-trip.
pub fn check_fences(one: u64, other: u64, text: &str) {
    if let (Ok(a), Ok(b)) = (Fence::new(one), Fence::new(other)) {
        assert_eq!(a.cmp(&b), one.cmp(&other));
        assert_eq!(a.to_string().cmp(&b.to_string()), one.cmp(&other));
        assert_eq!(a.to_string().len(), Fence::DIGITS);
        assert_eq!(a.to_string().parse::<Fence>().ok(), Some(a));
        assert_eq!(a.next().map(Fence::get).ok(), (a < Fence::MAX).then_some(one + 1));
    }
    if let Ok(fence) = text.parse::<Fence>() {
        assert_eq!(fence.to_string(), text);
    }
}

/// A storage key fits its limits, and the same key in another form gets the same one.
pub fn check_storage_key(prefix: &str, key: &str, limit: usize, reserve: usize) {
    let limits = StorageLimits { limit, reserve };
    let Ok(key) = Key::new(key) else { return };
    for made in
        [make_storage_key(prefix, &key, limits), make_hashed_storage_key(prefix, &key, limits)]
    {
        match made {
            Ok(name) => {
                let length = name.expose().len();
                assert!(length > 0 && length + reserve <= limit);
                if let Ok(fence_name) = make_fence_key(prefix, &name, limits) {
                    assert!(fence_name.expose().len() + reserve <= limit);
                    assert_ne!(fence_name, name);
                }
            }
            Err(error) => assert_eq!(error.code(), ErrorCode::InvalidArgument),
        }
    }
}
