//! What must hold whatever the backends read: shared by the fuzz targets and the test that runs each of them
//! over its corpus.
//!
//! Each function panics on input that breaks a rule. Input is bytes, as it is in the files of the corpus.

mod expected;
mod firestore_document;
mod postgres_row;
mod redis_record;
mod url;

pub use firestore_document::check_firestore_document;
pub use postgres_row::check_postgres_row;
pub use redis_record::check_redis_record;
pub use url::check_url;

/// What a target does with an input.
pub type Check = fn(&[u8]);

/// Each target, by its name in `fuzz_targets` and `corpus`.
pub const TARGETS: [(&str, Check); 4] = [
    ("firestore_document", check_firestore_document),
    ("postgres_row", check_postgres_row),
    ("redis_record", check_redis_record),
    ("url", check_url),
];
