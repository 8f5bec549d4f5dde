//! Documents in the form of the wire.

use syncguard_firestore::ErrorCode;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::Document;
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::gcloud_sdk::prost::Message as _;

/// A document is a lock, a counter or neither. An error about the last kind shows none of its contents.
pub fn check_firestore_document(input: &[u8]) {
    let Ok(document) = Document::decode(input) else { return };
    let texts: Vec<String> = document
        .fields
        .values()
        .filter_map(|value| match &value.value_type {
            Some(ValueType::StringValue(text)) if text.len() > 16 => Some(text.clone()),
            _ => None,
        })
        .collect();
    let lock = syncguard_firestore::simulated::read_lock(document.clone());
    let counter = syncguard_firestore::simulated::read_counter(&document);
    if let Ok(info) = &lock {
        let fence = document.fields.get("fence").and_then(|value| value.value_type.as_ref());
        assert_eq!(fence, Some(&ValueType::StringValue(info.fence.to_string())));
        assert!(counter.as_ref().is_ok_and(|last| *last == info.fence));
        let expires =
            document.fields.get("expiresAtMs").and_then(|value| value.value_type.as_ref());
        let millis = info.expires_at.as_millis();
        match expires {
            Some(ValueType::IntegerValue(at)) => assert_eq!(u64::try_from(*at).ok(), Some(millis)),
            Some(ValueType::DoubleValue(at)) => assert_eq!(format!("{at:.0}"), millis.to_string()),
            other => panic!("a time that is {other:?}"),
        }
    }
    for error in [lock.err(), counter.err()].into_iter().flatten() {
        assert_eq!(error.code(), ErrorCode::Internal);
        let shown = format!("{error} {error:?}");
        assert!(!texts.iter().any(|text| shown.contains(text)), "{shown}");
    }
}
