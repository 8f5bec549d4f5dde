//! The credentials of log-ins, which a program may supply anew for each of them.

use std::error::Error;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::timeout;

use crate::util::catch_callback_panic;
use crate::value::{ErrorCode, LockError};

/// The password of a log-in to a store, and the user if it is not that of the URL. `Debug` shows neither.
#[derive(Clone)]
pub struct Credentials {
    user: Option<String>,
    password: String,
}

impl Credentials {
    /// This password, for the user of the URL.
    #[must_use]
    pub fn password(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }

    /// Logs this user in, and not the user of the URL.
    #[must_use]
    pub fn with_user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// For authors of backends: the user, if one is set, and the password.
    #[must_use]
    pub fn expose(self) -> (Option<String>, String) {
        (self.user, self.password)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

/// Supplies the credentials of each log-in: the option `with_credentials` of Redis, PostgreSQL and etcd.
///
/// A backend lives longer than a password. With a provider it logs each new connection in with the password of that moment,
/// and goes on when the password has changed; connections that are open stay. etcd has a log-in for each access token.
///
/// ```
/// use syncguard_core::{Credentials, CredentialsProvider};
///
/// let credentials = CredentialsProvider::new(|| async {
///     let password = std::fs::read_to_string("/run/secrets/locks")?;
///     Ok::<_, std::io::Error>(Credentials::password(password.trim_end()))
/// });
/// ```
///
/// # Errors
///
/// If the function fails, so does the operation that needs the log-in: with the error itself if it is a [`LockError`], and
/// else with `ServiceUnavailable` and the text of the error, which is shown in logs. The function has a part of the time
/// limit for a connection, and its future is dropped when that is over. Renewals of held locks try again.
#[derive(Clone)]
pub struct CredentialsProvider(Arc<Provide>);

type Provide = dyn Fn() -> Providing + Send + Sync;
type Providing = Pin<Box<dyn Future<Output = Result<Credentials, LockError>> + Send>>;

impl CredentialsProvider {
    /// Calls this function for each log-in, maybe for several at a time.
    pub fn new<F, E>(provide: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        Self(Arc::new(move || {
            let providing = provide();
            Box::pin(async move { providing.await.map_err(|error| failed(error.into())) })
        }))
    }

    /// For authors of backends: the credentials of the next log-in.
    ///
    /// # Errors
    ///
    /// The errors of the function; `NetworkTimeout` after this time, and `Internal` if the function panics.
    ///
    /// # Cancel safety
    ///
    /// Safe: the future of the function is dropped.
    pub async fn provide(&self, limit: Duration) -> Result<Credentials, LockError> {
        let panicked = || Err(LockError::internal("the provider of the credentials panicked"));
        let Some(mut providing) = catch_callback_panic(|| (self.0)()) else { return panicked() };
        let provided = poll_fn(|context| {
            let polled = catch_callback_panic(|| providing.as_mut().poll(context));
            polled.unwrap_or_else(|| Poll::Ready(panicked()))
        });
        timeout(limit, provided).await.unwrap_or_else(|_| {
            let message = "the provider gave no credentials in time";
            Err(LockError::new(ErrorCode::NetworkTimeout, message))
        })
    }
}

fn failed(error: Box<dyn Error + Send + Sync>) -> LockError {
    match error.downcast::<LockError>() {
        Ok(error) => *error,
        Err(error) => {
            let message = "the provider of the credentials failed";
            LockError::new(ErrorCode::ServiceUnavailable, message).with_source(&*error)
        }
    }
}

impl fmt::Debug for CredentialsProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialsProvider")
    }
}

/// Writes the method that sets the provider of credentials in this field, for the options of a backend.
#[doc(hidden)]
#[macro_export]
macro_rules! credentials_option {
    ($field:ident) => {
        /// Asks this provider for the password of each log-in, instead of that of the URL. A URL cannot set it. Default: none.
        pub fn with_credentials(mut self, provider: $crate::CredentialsProvider) -> Self {
            self.$field = ::core::option::Option::Some(provider);
            self
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    async fn code(provider: CredentialsProvider) -> ErrorCode {
        let error = provider.provide(LIMIT).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        error.code()
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_a_provider_does_there_is_an_answer_in_time() {
        let right = CredentialsProvider::new(|| async {
            Ok::<_, LockError>(Credentials::password("hunter2").with_user("me"))
        });
        let credentials = right.provide(LIMIT).await.unwrap();
        assert!(!format!("{right:?} {credentials:?}").contains("hunter2"));
        assert_eq!(credentials.expose(), (Some("me".to_owned()), "hunter2".to_owned()));
        let refuses = || async { Err(LockError::new(ErrorCode::AuthFailed, "no")) };
        assert_eq!(code(CredentialsProvider::new(refuses)).await, ErrorCode::AuthFailed);
        let fails = || async { Err(std::io::Error::other("away")) };
        assert_eq!(code(CredentialsProvider::new(fails)).await, ErrorCode::ServiceUnavailable);
        let hangs = std::future::pending::<Result<_, LockError>>;
        assert_eq!(code(CredentialsProvider::new(hangs)).await, ErrorCode::NetworkTimeout);
        let panics = || async { panic!("hunter2") as Result<_, LockError> };
        assert_eq!(code(CredentialsProvider::new(panics)).await, ErrorCode::Internal);
    }
}
