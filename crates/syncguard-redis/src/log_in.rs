//! The credentials that a program supplies for each connection of fred.

use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fred::error::{Error as DriverError, ErrorKind};
use fred::types::config::{Config, CredentialProvider, Server, ServerConfig};
use syncguard_core::{CredentialsProvider, LockError};

/// A user and a password, as fred takes them.
type Login = (Option<String>, Option<String>);

/// Asks the program's provider, also when fred opens a connection by itself, as on a cluster.
pub(crate) struct LogIn {
    provider: CredentialsProvider,
    limit: Duration,
    user: Option<String>,
    /// The Sentinels, which have credentials of their own. fred would give them those of the server.
    sentinels: Vec<Server>,
    of_sentinels: Login,
    /// Why there are no credentials. fred keeps errors as texts.
    failure: Mutex<Option<LockError>>,
}

impl LogIn {
    /// For this configuration. The provider has `limit`.
    pub(crate) fn new(provider: CredentialsProvider, config: &Config, limit: Duration) -> Self {
        let (sentinels, of_sentinels) = match &config.server {
            ServerConfig::Sentinel { hosts, username, password, .. } => {
                (hosts.clone(), (username.clone(), password.clone()))
            }
            _ => (Vec::new(), (None, None)),
        };
        let (user, failure) = (config.username.clone(), Mutex::default());
        Self { provider, limit, user, sentinels, of_sentinels, failure }
    }

    /// Why there were no credentials for the last log-in.
    pub(crate) fn failure(&self) -> Option<LockError> {
        self.last().clone()
    }

    async fn ask(&self, server: Option<&Server>) -> Result<Login, DriverError> {
        if server.is_some_and(|server| self.sentinels.contains(server)) {
            return Ok(self.of_sentinels.clone());
        }
        let provided = self.provider.provide(self.limit).await;
        *self.last() = provided.as_ref().err().cloned();
        // fred tries again after an error of this kind.
        let failed = |_| DriverError::new(ErrorKind::IO, "no credentials");
        let (user, password) = provided.map_err(failed)?.expose();
        Ok((user.or_else(|| self.user.clone()), Some(password)))
    }

    fn last(&self) -> MutexGuard<'_, Option<LockError>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CredentialProvider for LogIn {
    fn fetch<'s, 'a, 'f>(
        &'s self,
        server: Option<&'a Server>,
    ) -> Pin<Box<dyn Future<Output = Result<Login, DriverError>> + Send + 'f>>
    where
        's: 'f,
        'a: 'f,
        Self: 'f,
    {
        Box::pin(self.ask(server))
    }
}

impl fmt::Debug for LogIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogIn")
    }
}
