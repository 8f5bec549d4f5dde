//! The names of the connections in `CLIENT LIST`, for operators.

use std::time::Duration;

use fred::clients::Client;
use fred::error::Error as DriverError;
use fred::interfaces::{ClusterInterface as _, EventInterface as _};
use fred::types::config::Server;
use fred::types::{ConnectHandle, Value};
use syncguard_core::LockError;
use syncguard_core::contract::Holder;
use tokio::sync::broadcast::error::RecvError;

use crate::driver::{lost, once};
use crate::error::{self, Stage};

/// The name of a connection: `syncguard:` and the label of the holder. Redis allows only printable ASCII characters
/// without spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionName(String);

impl ConnectionName {
    /// `None` if the holder has no label.
    pub(crate) fn of(holder: &Holder) -> Option<Self> {
        let allowed = |char: char| if char.is_ascii_graphic() { char } else { '_' };
        let label: String = holder.label().chars().map(allowed).collect();
        (!label.is_empty()).then(|| Self(format!("syncguard:{label}")))
    }

    /// Names the connection of a client, on a cluster the connection to the node that has this slot. If the server
    /// refuses the command, the connection keeps no name.
    /// Returns an error if there is no answer.
    pub(crate) async fn set(
        &self,
        client: &Client,
        slot: Option<u16>,
        timeout: Duration,
    ) -> Option<LockError> {
        let words: Vec<Value> = self.words().map(Value::from).into();
        let named = once(client, "CLIENT", words, slot, timeout).await;
        let lost = lost(&named);
        said(named.map_err(|error| error::from_driver(&error, Stage::Asking)));
        lost
    }

    /// The words of the command that names a connection, after `CLIENT`.
    pub(crate) fn words(&self) -> [&str; 2] {
        ["SETNAME", &self.0]
    }

    /// Names each connection that the client of a cluster opens from now on, also in place of a lost connection.
    pub(crate) fn set_always(self, client: &Client, timeout: Duration) -> ConnectHandle {
        let (client, mut opened) = (client.clone(), client.reconnect_rx());
        tokio::spawn(async move {
            loop {
                match opened.recv().await {
                    Ok(server) => {
                        if let Some(slot) = first_slot(&client, &server) {
                            // fred replaces a connection that is lost.
                            let _ = self.set(&client, Some(slot), timeout).await;
                        }
                    }
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Ok::<_, DriverError>(()),
                }
            }
        })
    }
}

/// Logs a refusal.
pub(crate) fn said(named: Result<Value, LockError>) {
    if let Err(error) = named {
        tracing::debug!(%error, "a connection to Redis has no name");
    }
}

/// The first slot of a node. fred sends a command for a slot to the node that has the slot; a command for a node that
/// has left the cluster would make fred reconnect.
fn first_slot(client: &Client, server: &Server) -> Option<u16> {
    let nodes = client.cached_cluster_state()?;
    nodes.slots().iter().find(|range| range.primary == *server).map(|range| range.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(label: &str) -> Option<String> {
        ConnectionName::of(&Holder::new(label).unwrap()).map(|name| name.0)
    }

    #[test]
    fn a_name_has_only_characters_that_redis_allows() {
        assert_eq!(name("web-7f9c").as_deref(), Some("syncguard:web-7f9c"));
        assert_eq!(name("büro 7").as_deref(), Some("syncguard:b_ro_7"));
    }

    #[test]
    fn a_holder_without_a_label_gives_no_name() {
        assert_eq!(name(""), None);
    }
}
