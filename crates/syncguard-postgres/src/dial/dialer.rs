//! The dialer of a pool.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deadpool_postgres::Connect;
use syncguard_core::CredentialsProvider;
use tokio::task::{JoinError, JoinHandle};
use tokio_postgres::{Client, Config, Error};

use super::refusal::wrapped;
use super::{DialError, Tls, open};

/// Opens the connections of a pool. An attempt whose caller gives up goes on, and belongs to the next caller.
pub(crate) struct Dialer<T> {
    tls: T,
    credentials: Option<CredentialsProvider>,
    pub(super) orphans: Arc<Mutex<Vec<Dialing>>>,
}

pub(super) type Dialing = JoinHandle<Result<Served, DialError>>;

/// A client, and the task that serves it.
type Served = (Client, JoinHandle<()>);

impl<T: Tls> Dialer<T> {
    pub(crate) fn new(tls: T, credentials: Option<CredentialsProvider>) -> Self {
        Self { tls, credentials, orphans: Arc::default() }
    }

    /// An attempt that has lost its caller, or a new one.
    fn attempt(&self, config: &Config) -> Parent {
        let orphan = orphans(&self.orphans).pop();
        let attempt = orphan.unwrap_or_else(|| {
            let (config, tls) = (config.clone(), self.tls.clone());
            let credentials = self.credentials.clone();
            tokio::spawn(async move {
                let (client, connection) = open(&config, &tls, credentials.as_ref()).await?;
                let served = tokio::spawn(async move { drop(connection.await) });
                Ok((client, served))
            })
        });
        Parent { attempt: Some(attempt), orphans: Arc::clone(&self.orphans) }
    }
}

pub(super) fn orphans(orphans: &Mutex<Vec<Dialing>>) -> MutexGuard<'_, Vec<Dialing>> {
    orphans.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: Tls> Connect for Dialer<T> {
    fn connect(
        &self,
        config: &Config,
    ) -> Pin<Box<dyn Future<Output = Result<Served, Error>> + Send + '_>> {
        let config = config.clone();
        Box::pin(async move {
            loop {
                let mut parent = self.attempt(&config);
                let was_over = parent.attempt.as_ref().is_some_and(JoinHandle::is_finished);
                match parent.end().await {
                    Ok(Ok(served)) if !served.0.is_closed() => return Ok(served),
                    // A failure from before this caller came says nothing about now.
                    Ok(Err(DialError::Driver(error))) if !was_over => return Err(error),
                    Ok(Err(DialError::NoCredentials(error))) if !was_over => {
                        if let Some(error) = wrapped(error).await {
                            return Err(error);
                        }
                    }
                    // Silent addresses, an old failure, or a runtime that has ended. The caller bounds its wait.
                    _ => {}
                }
            }
        })
    }
}

/// The caller that waits for an attempt.
struct Parent {
    attempt: Option<Dialing>,
    orphans: Arc<Mutex<Vec<Dialing>>>,
}

impl Parent {
    async fn end(&mut self) -> Result<Result<Served, DialError>, JoinError> {
        let Some(attempt) = &mut self.attempt else { return std::future::pending().await };
        let end = attempt.await;
        self.attempt = None;
        end
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            orphans(&self.orphans).push(attempt);
        }
    }
}
