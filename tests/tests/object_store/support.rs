//! An emulator of Azure, backends on it, and its objects without the library.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64ct::{Base64UrlUnpadded, Encoding as _};
use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::path::Path;
use object_store::{ObjectStoreExt as _, PutPayload};
use sha2::{Digest as _, Sha256};
use syncguard_object_store::{ObjectStoreBackend, ObjectStoreOptions, object_store};
use syncguard_test_services::azurite::{ACCOUNT, ACCOUNT_KEY, AzuriteServer, CONTAINER};

/// An emulator that many tests share. It keeps its data, so prefixes must not clash.
pub(crate) fn shared() -> &'static AzuriteServer {
    static SERVER: OnceLock<AzuriteServer> = OnceLock::new();
    SERVER.get_or_init(|| AzuriteServer::start().expect("an emulator"))
}

/// A prefix that nothing else in this process uses.
pub(crate) fn fresh() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Options that are patient with a busy machine.
pub(crate) fn options() -> ObjectStoreOptions {
    ObjectStoreOptions::new()
        .with_request_timeout(Duration::from_secs(20))
        .with_operation_timeout(Duration::from_secs(40))
}

/// A backend that the emulator on this port serves.
pub(crate) async fn backend_at(
    port: u16,
    prefix: &str,
    options: ObjectStoreOptions,
) -> ObjectStoreBackend {
    let url = AzuriteServer::url_at(port, prefix);
    ObjectStoreBackend::connect_with(&url, options).await.expect("a backend")
}

/// The name of the object of a key.
pub(crate) fn name_of(prefix: &str, key: &str) -> Path {
    let is_plain = |c: &u8| c.is_ascii_alphanumeric() || b"-_:".contains(c);
    let escape = |c: u8| if is_plain(&c) { char::from(c).into() } else { format!("={c:02X}") };
    let name = key.bytes().map(escape).collect::<String>();
    if name.len() <= 600 {
        return Path::from(format!("{prefix}/k/{name}"));
    }
    let hash = Base64UrlUnpadded::encode_string(&Sha256::digest(key.as_bytes())[..16]);
    Path::from(format!("{prefix}/k/=={hash}"))
}

/// The objects of the shared emulator.
pub(crate) struct Raw(MicrosoftAzure);

impl Raw {
    pub(crate) fn new() -> Self {
        let endpoint = format!("http://127.0.0.1:{}/{ACCOUNT}", shared().port());
        let builder = MicrosoftAzureBuilder::new()
            .with_account(ACCOUNT)
            .with_access_key(ACCOUNT_KEY)
            .with_endpoint(endpoint)
            .with_allow_http(true)
            .with_container_name(CONTAINER);
        Self(builder.build().expect("a client"))
    }

    pub(crate) fn into_store(self) -> MicrosoftAzure {
        self.0
    }

    pub(crate) async fn get(&self, name: &Path) -> Option<String> {
        let bytes = self.0.get(name).await.ok()?.bytes().await.expect("an object");
        Some(String::from_utf8(bytes.to_vec()).expect("UTF-8"))
    }

    pub(crate) async fn put(&self, name: &Path, text: &str) {
        self.0.put(name, PutPayload::from(text.to_owned())).await.expect("a write");
    }

    /// Writes the object of a key.
    pub(crate) async fn write(&self, prefix: &str, key: &str, fields: &str) {
        let text = format!(r#"{{"key":"{key}","revision":1,"nonce":"by hand",{fields}}}"#);
        self.put(&name_of(prefix, key), &text).await;
    }
}
