//! Rules that hold for any input of the backends: shared by the fuzz targets and the test that runs each of them over
//! its corpus.
//!
//! Each function panics on input that breaks a rule. The input is bytes, in the format of the corpus files.

mod etcd_record;
mod expected;
mod firestore_document;
mod object_record;
mod postgres_row;
mod redis_record;
mod url;

pub use etcd_record::check_etcd_record;
pub use firestore_document::check_firestore_document;
pub use object_record::check_object_record;
pub use postgres_row::check_postgres_row;
pub use redis_record::check_redis_record;
pub use url::check_url;

/// The function of a target.
pub type Check = fn(&[u8]);

/// Each target, by its name in `fuzz_targets` and `corpus`.
pub const TARGETS: [(&str, Check); 6] = [
    ("etcd_record", check_etcd_record),
    ("firestore_document", check_firestore_document),
    ("object_record", check_object_record),
    ("postgres_row", check_postgres_row),
    ("redis_record", check_redis_record),
    ("url", check_url),
];
