#!/usr/bin/env bash
# object_store 0.14.2 of crates.io: the address of an emulator of Azure is not where the requests go.
#
# Guess: `with_use_emulator(true)` and `with_endpoint("http://127.0.0.1:10555/…")` lead to the emulator on port 10555.
#
# What happens: with the switch, the endpoint is dropped without a word, and requests go to 127.0.0.1:10000, or to the address in
# AZURITE_BLOB_STORAGE_URL. Another emulator that listens there serves the test. Without the switch the endpoint counts, and an
# emulator is a store like others, with its well-known account.
source "$(dirname "$0")/common.sh"

mkdir src
cat >Cargo.toml <<'TOML'
[package]
name = "emulator"
version = "0.0.0"
edition = "2024"

[dependencies]
async-trait = "0.1"
futures-executor = "0.3"
# Without the feature `azure`, which adds an HTTP client and TLS: nothing is sent here.
object_store = { version = "=0.14.2", default-features = false, features = ["azure-base"] }

[profile.dev]
debug = 0
TOML
cat >src/main.rs <<'RUST'
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientOptions, ObjectStoreExt, RetryConfig};

/// Prints where a request goes, and sends nothing.
#[derive(Debug)]
struct Prints;

#[async_trait::async_trait]
impl HttpService for Prints {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        println!("{}", request.uri());
        Err(HttpError::new(HttpErrorKind::Unknown, std::io::Error::other("nothing is sent")))
    }
}

impl HttpConnector for Prints {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Prints))
    }
}

fn main() {
    for emulator in [false, true] {
        let store = MicrosoftAzureBuilder::new()
            .with_use_emulator(emulator)
            .with_account("devstoreaccount1")
            .with_bearer_token_authorization("token")
            .with_endpoint("http://127.0.0.1:10555/devstoreaccount1".to_owned())
            .with_allow_http(true)
            .with_container_name("locks")
            .with_http_connector(Prints)
            .with_retry(RetryConfig { max_retries: 0, ..Default::default() })
            .build()
            .unwrap();
        let _ = futures_executor::block_on(store.get(&"key".into()));
    }
}
RUST
cargo build --quiet
is_version object_store 0.14.2 "$(sed -n '/^name = "object_store"/{n;s/version = "\(.*\)"/\1/p}' Cargo.lock)"
mapfile -t lines < <(env -u AZURITE_BLOB_STORAGE_URL target/debug/emulator)
seen "with_endpoint" "http://127.0.0.1:10555/devstoreaccount1/locks/key" "${lines[0]}"
seen "with_endpoint and with_use_emulator(true)" "http://127.0.0.1:10000/devstoreaccount1/locks/key" "${lines[1]}"
