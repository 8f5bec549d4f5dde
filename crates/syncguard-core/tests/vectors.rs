//! Hashes, storage keys and fences, compared with the TypeScript library.

use serde_json::Value;
use syncguard_core::authoring::{StorageLimits, make_fence_key, make_storage_key};
use syncguard_core::authoring::{hash_key, hash_key_triple32};
use syncguard_core::{Fence, Key};

fn vectors(section: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(include_str!("../vectors/keys.json")).unwrap();
    let section = file[section].as_array().unwrap().clone();
    assert!(!section.is_empty());
    section
}

fn text<'a>(vector: &'a Value, field: &str) -> &'a str {
    vector[field].as_str().unwrap()
}

fn number(vector: &Value, field: &str) -> usize {
    usize::try_from(vector[field].as_u64().unwrap()).unwrap()
}

#[test]
fn both_hashes() {
    for vector in vectors("hashKey") {
        let input = text(&vector, "input");
        assert_eq!(hash_key(input).to_string(), text(&vector, "sha256_96"), "{vector}");
        assert_eq!(hash_key_triple32(input).to_string(), text(&vector, "triple32"), "{vector}");
    }
}

#[test]
fn storage_and_fence_keys() {
    let mut checked = 0;
    for vector in vectors("makeStorageKey") {
        let limits =
            StorageLimits { limit: number(&vector, "limit"), reserve: number(&vector, "reserve") };
        let prefix = text(&vector, "prefix");
        let key = text(&vector, "key");
        if key.len() > Key::MAX_LENGTH_BYTES {
            // The TypeScript library makes the names before it checks the key. Here such a key cannot exist.
            assert!(Key::new(key).is_err(), "{vector}");
            continue;
        }
        checked += 1;
        let names = Key::new(key).and_then(|key| {
            let storage_key = make_storage_key(prefix, &key, limits)?;
            let fence_key = make_fence_key(prefix, &storage_key, limits)?;
            Ok((storage_key, fence_key))
        });
        match names {
            Ok((storage_key, fence_key)) => {
                assert_eq!(storage_key.expose(), text(&vector, "storageKey"), "{vector}");
                assert_eq!(fence_key.expose(), text(&vector, "fenceKey"), "{vector}");
            }
            Err(error) => assert_eq!(error.code().as_str(), text(&vector, "error"), "{vector}"),
        }
    }
    assert!(checked > 40, "{checked}");
}

#[test]
fn fences() {
    for vector in vectors("formatFence") {
        let fence = Fence::new(vector["n"].as_u64().unwrap()).unwrap();
        assert_eq!(fence.to_string(), text(&vector, "fence"));
        assert_eq!(text(&vector, "fence").parse::<Fence>().unwrap(), fence);
    }
}

#[test]
fn limits_without_room_are_refused() {
    let key = Key::new("key").unwrap();
    for (limit, reserve) in [(0, 0), (2, 0), (1000, usize::MAX), (usize::MAX, usize::MAX)] {
        assert!(make_storage_key("", &key, StorageLimits { limit, reserve }).is_err());
    }
    let whole = StorageLimits { limit: usize::MAX, reserve: 0 };
    assert_eq!(make_storage_key("p", &key, whole).unwrap().expose(), "p:key");
}
