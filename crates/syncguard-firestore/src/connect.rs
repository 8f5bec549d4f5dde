//! Makes a client for Google's service or for an emulator.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gcloud_sdk::google::firestore::v1::firestore_client::FirestoreClient;
use gcloud_sdk::google_cloud_auth::credentials::{
    CacheableResource, Credentials, CredentialsProvider, EntityTag,
};
use gcloud_sdk::google_cloud_auth::errors::CredentialsError;
use gcloud_sdk::tonic::codegen::http::{Extensions, HeaderValue, header};
use gcloud_sdk::tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use gcloud_sdk::{GoogleAuthHeaders, GoogleAuthMiddleware, HeaderMap};
use hyper_util::client::legacy::connect::HttpConnector;
use syncguard_core::LockError;
use syncguard_core::authoring::backend_url::host_and_port;
use tokio::runtime::{Handle, Id};

use crate::config::FirestoreOptions;
use crate::error;
use crate::names::Layout;
use crate::service::{Calling, Maker, Service};
use crate::turns::Turns;

const SERVICE: &str = "https://firestore.googleapis.com";

/// The only scope that reading and writing documents needs.
const SCOPE: &str = "https://www.googleapis.com/auth/datastore";

const EMULATOR_VARIABLE: &str = "FIRESTORE_EMULATOR_HOST";

/// Makes clients, each with a channel of its own.
pub(crate) struct ClientMaker {
    endpoint: Endpoint,
    connect_timeout: Duration,
    database: String,
    is_emulator: bool,
    /// The credentials, and the runtime that renews their tokens.
    headers: Mutex<Option<(Id, Arc<GoogleAuthHeaders>)>>,
    turns: Turns,
}

impl ClientMaker {
    pub(crate) fn new(layout: &Layout, options: &FirestoreOptions) -> Result<Self, LockError> {
        let emulator = options.emulator.clone().or_else(|| std::env::var(EMULATOR_VARIABLE).ok());
        let emulator = emulator.filter(|host_port| !host_port.is_empty());
        let endpoint = match &emulator {
            Some(host_port) => {
                let endpoint = emulator_endpoint(host_port, options.remote_emulator)?;
                tracing::info!("using a Firestore emulator, in plain text");
                endpoint
            }
            None => service_endpoint(options.common.connect_timeout / 2)?,
        };
        Ok(Self {
            endpoint,
            connect_timeout: options.common.connect_timeout,
            // Firestore routes by this header; it answers NOT_FOUND for a named database without it.
            database: layout.database().to_owned(),
            is_emulator: emulator.is_some(),
            headers: Mutex::default(),
            turns: Turns::new(options.name_server.clone()),
        })
    }

    /// The credentials of this runtime. Their tokens stay valid if a channel is replaced.
    async fn headers(&self) -> Result<Arc<GoogleAuthHeaders>, LockError> {
        let here = Handle::try_current().map_err(|_| no_runtime())?.id();
        let known = self.kept().clone();
        if let Some((_, headers)) = known.filter(|(runtime, _)| *runtime == here) {
            return Ok(headers);
        }
        let headers = if self.is_emulator {
            GoogleAuthHeaders::from(Credentials::from(Owner::new()))
        } else {
            let headers = GoogleAuthHeaders::from_adc_with_scopes(vec![SCOPE.to_owned()]).await;
            headers.map_err(|error| error::no_credentials(&error))?
        };
        let headers = Arc::new(headers);
        *self.kept() = Some((here, Arc::clone(&headers)));
        Ok(headers)
    }

    fn kept(&self) -> MutexGuard<'_, Option<(Id, Arc<GoogleAuthHeaders>)>> {
        self.headers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Maker for ClientMaker {
    /// Makes a client. Opens no connection yet. The tasks of its channel, and those of the credentials, belong to the
    /// runtime of this call.
    fn make(&self) -> Calling<'_, Arc<dyn Service>, LockError> {
        Box::pin(async {
            let headers = self.headers().await?;
            let channel = lazy_channel(&self.endpoint, self.connect_timeout, self.turns.clone());
            let client =
                GoogleAuthMiddleware::new(channel, headers, Some(self.database.clone()))
                    .map_err(|_| LockError::internal("a header cannot hold the database's name"))?;
            Ok(Arc::new(FirestoreClient::new(client)) as Arc<dyn Service>)
        })
    }
}

fn no_runtime() -> LockError {
    LockError::invalid_argument("a Firestore backend needs a tokio runtime")
}

fn service_endpoint(handshake: Duration) -> Result<Endpoint, LockError> {
    let roots = syncguard_core::authoring::tls::roots(&[])?;
    let tls = ClientTlsConfig::new().trust_anchors(roots.roots).timeout(handshake);
    let endpoint = Endpoint::from_static(SERVICE).tls_config(tls);
    endpoint.map_err(|error| LockError::internal("TLS cannot be set up").with_source(&error))
}

/// Makes a channel that connects with the first call, and reconnects after the connection is lost. One half of the time
/// to connect is for the addresses, which share it; the other half is for TLS.
fn lazy_channel(endpoint: &Endpoint, connect_timeout: Duration, turns: Turns) -> Channel {
    let mut connector = HttpConnector::new_with_resolver(turns);
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_keepalive(Some(Duration::from_secs(30)));
    connector.set_connect_timeout(Some(connect_timeout / 2));
    endpoint
        .clone()
        // A connection that died silently is noticed within 40 s, even while no call uses it.
        .http2_keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(10))
        .keep_alive_while_idle(true)
        .connect_with_connector_lazy(connector)
}

fn emulator_endpoint(text: &str, remote: bool) -> Result<Endpoint, LockError> {
    let Some((host, Some(_))) = host_and_port(text) else { return Err(bad_address()) };
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let is_here =
        address.map_or(host.eq_ignore_ascii_case("localhost"), |address| address.is_loopback());
    if !remote && !is_here {
        return Err(LockError::invalid_argument(
            "the Firestore emulator is not on this machine (FIRESTORE_EMULATOR_HOST or \
             with_emulator); with_remote_emulator allows that",
        ));
    }
    Endpoint::from_shared(format!("http://{text}")).map_err(|_| bad_address())
}

fn bad_address() -> LockError {
    LockError::invalid_argument(
        "the address of the Firestore emulator (FIRESTORE_EMULATOR_HOST or with_emulator) must be \
         host:port and nothing else: a host name or an IP address, IPv6 in square brackets, a \
         colon, and a port from 1 to 65535, as in localhost:8080 or [::1]:8080",
    )
}

/// The emulator takes this token for an administrator, to whom no security rules apply.
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
            "my_container:80",
            "[2001:db8::1]:8080",
            "[::ffff:127.0.0.1]:80",
        ] {
            assert!(emulator_endpoint(there, false).is_err(), "{there}");
            assert!(emulator_endpoint(there, true).is_ok(), "{there}");
        }
    }

    /// In a URL, the text before an `@` is a user name: the host of `localhost:1@example.com` is example.com.
    #[test]
    fn an_emulators_address_is_a_host_and_a_port_and_nothing_else() {
        for wrong in [
            "localhost:1@example.com",
            "localhost:80@127.0.0.1:80",
            "localhost:1/@example.com:80",
            "localhost:80/",
            "localhost:80#x",
            "example.com:80\\@localhost:80",
            "http://localhost:80",
            "//localhost:80",
            "localhost:80\n",
            "local host:80",
            "localhost",
            ":80",
            "localhost:0",
            "localhost:65536",
            "localhost:+80",
            "localhost:80:80",
            "::1:80",
            "[::1]",
            "[::1]:0",
            "[::1:80",
            "[localhost]:80",
            "[127.0.0.1]:80",
            "[::1%eth0]:80",
            "[::1]@example.com:80",
            "localhost%00:80",
            "b\u{fc}cher:80",
        ] {
            for remote in [false, true] {
                let error = emulator_endpoint(wrong, remote).map(drop).unwrap_err();
                assert_eq!(error.code(), syncguard_core::ErrorCode::InvalidArgument, "{wrong}");
                let says = error.message();
                assert!(
                    says.contains("host:port") && says.contains("[::1]:8080"),
                    "{wrong}: {says}"
                );
            }
        }
        for (right, uri) in [
            ("localhost:8080", "http://localhost:8080/"),
            ("127.0.0.1:1", "http://127.0.0.1:1/"),
            ("[::1]:65535", "http://[::1]:65535/"),
            ("a-b.c_d.example:80", "http://a-b.c_d.example:80/"),
        ] {
            let endpoint = emulator_endpoint(right, true).unwrap();
            assert_eq!(endpoint.uri().to_string(), uri);
        }
    }

    /// The address in a URL is checked in the same way.
    #[tokio::test]
    async fn an_address_in_the_url_leads_nowhere_else_either() {
        let url = "firestore://p?emulator=localhost:1%40example.com:80";
        let error = crate::FirestoreBackend::connect(url).await.unwrap_err();
        assert_eq!(error.code(), syncguard_core::ErrorCode::InvalidArgument);
        assert!(error.message().contains("host:port"), "{error}");
        assert!(!format!("{error} {error:?}").contains("example.com"), "{error:?}");
    }

    /// No server listens on this port, and the connect timeout is 1 ms.
    #[tokio::test]
    async fn connecting_waits_for_nobody() {
        let url = "firestore://p?emulator=127.0.0.1:1&connect_timeout_ms=1";
        let connecting = std::pin::pin!(crate::FirestoreBackend::connect(url));
        let waker = std::task::Waker::noop();
        let polled = connecting.poll(&mut std::task::Context::from_waker(waker));
        assert!(matches!(polled, std::task::Poll::Ready(Ok(_))), "{polled:?}");
    }

    /// tonic and rustls panic or fail here if they find no crypto provider, or two.
    #[tokio::test]
    async fn tls_can_be_set_up() {
        let endpoint = service_endpoint(Duration::from_secs(1)).unwrap();
        drop(lazy_channel(&endpoint, Duration::from_secs(1), Turns::default()));
    }
}
