//! A client: of Google's service, or of an emulator.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use gcloud_sdk::google_cloud_auth::credentials::{
    CacheableResource, Credentials, CredentialsProvider, EntityTag,
};
use gcloud_sdk::google_cloud_auth::errors::CredentialsError;
use gcloud_sdk::tonic::codegen::http::{Extensions, HeaderValue, header};
use gcloud_sdk::tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use gcloud_sdk::{GoogleAuthHeaders, GoogleAuthMiddleware, HeaderMap};
use syncguard_core::LockError;

use crate::config::FirestoreOptions;
use crate::error;
use crate::layout::Layout;

const SERVICE: &str = "https://firestore.googleapis.com";

/// All that reading and writing documents takes.
const SCOPE: &str = "https://www.googleapis.com/auth/datastore";

const EMULATOR_VARIABLE: &str = "FIRESTORE_EMULATOR_HOST";

/// Opens no connection yet.
pub(crate) async fn make_client(
    layout: &Layout,
    options: &FirestoreOptions,
) -> Result<FirestoreClient<GoogleAuthMiddleware>, LockError> {
    let emulator = options.emulator.clone().or_else(|| std::env::var(EMULATOR_VARIABLE).ok());
    let (endpoint, headers) = match emulator.filter(|host_port| !host_port.is_empty()) {
        Some(host_port) => {
            let endpoint = emulator_endpoint(&host_port, options.remote_emulator)?;
            tracing::info!("using a Firestore emulator, in plain text");
            (endpoint, GoogleAuthHeaders::from(Credentials::from(Owner::new())))
        }
        None => {
            let tls = ClientTlsConfig::new().with_webpki_roots();
            let endpoint = Endpoint::from_static(SERVICE)
                .tls_config(tls)
                .map_err(|error| LockError::internal("TLS cannot be set up").with_source(&error))?;
            let headers = GoogleAuthHeaders::from_adc_with_scopes(vec![SCOPE.to_owned()]).await;
            (endpoint, headers.map_err(|error| error::no_credentials(&error))?)
        }
    };
    let channel = lazy_channel(&endpoint, options.connect_timeout);
    // Firestore routes by this header; it answers NOT_FOUND for a named database without it.
    let prefix = Some(layout.database().to_owned());
    let service = GoogleAuthMiddleware::new(channel, headers, prefix)
        .map_err(|_| LockError::internal("a header cannot hold the database's name"))?;
    Ok(FirestoreClient::new(service))
}

/// Connects with the first call, and anew whenever the connection is lost.
fn lazy_channel(endpoint: &Endpoint, connect_timeout: Duration) -> Channel {
    endpoint
        .clone()
        .connect_timeout(connect_timeout)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(Duration::from_secs(30)))
        // A connection that died in silence is noticed within 40 s, also while nobody uses it.
        .http2_keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true)
        .connect_lazy()
}

fn emulator_endpoint(host_port: &str, remote: bool) -> Result<Endpoint, LockError> {
    if !remote && !is_loopback(host_port) {
        return Err(LockError::invalid_argument(
            "the Firestore emulator is not on this machine (FIRESTORE_EMULATOR_HOST or \
             with_emulator); with_remote_emulator allows that",
        ));
    }
    Endpoint::from_shared(format!("http://{host_port}")).map_err(|_| {
        LockError::invalid_argument(
            "the emulator's address cannot be read; it looks like host:port",
        )
    })
}

/// Whether `host:port` is on this machine, whatever DNS says.
fn is_loopback(host_port: &str) -> bool {
    match host_port.parse::<SocketAddr>() {
        Ok(address) => address.ip().is_loopback(),
        Err(_) => {
            let host = host_port.rsplit_once(':').map_or(host_port, |(host, _)| host);
            host.eq_ignore_ascii_case("localhost")
                || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

/// What the emulator takes for an administrator, whom no security rules stop.
#[derive(Debug)]
struct Owner(EntityTag);

impl Owner {
    fn new() -> Self {
        Self(EntityTag::new())
    }
}

impl CredentialsProvider for Owner {
    async fn headers(
        &self,
        _: Extensions,
    ) -> Result<CacheableResource<HeaderMap>, CredentialsError> {
        let owner = HeaderValue::from_static("Bearer owner");
        let data = HeaderMap::from_iter([(header::AUTHORIZATION, owner)]);
        Ok(CacheableResource::New { entity_tag: self.0.clone(), data })
    }

    async fn universe_domain(&self) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_is_on_this_machine_unless_told_otherwise() {
        for here in ["localhost:8080", "127.0.0.1:1", "127.9.9.9:80", "[::1]:8080", "LOCALHOST:1"] {
            assert!(emulator_endpoint(here, false).is_ok(), "{here}");
        }
        for there in [
            "firestore:8080",
            "10.0.0.1:80",
            "0.0.0.0:8080",
            "localhost.example.com:80",
            "127.0.0.1.example.com:80",
            "user@example.com:80",
        ] {
            assert!(emulator_endpoint(there, false).is_err(), "{there}");
            assert!(emulator_endpoint(there, true).is_ok(), "{there}");
        }
        assert!(emulator_endpoint("a b", true).is_err());
    }

    /// tonic and rustls panic or refuse here if they find no provider, or two.
    #[tokio::test]
    async fn tls_can_be_set_up() {
        let tls = ClientTlsConfig::new().with_webpki_roots();
        let endpoint = Endpoint::from_static(SERVICE).tls_config(tls).unwrap();
        drop(lazy_channel(&endpoint, Duration::from_secs(1)));
    }
}
