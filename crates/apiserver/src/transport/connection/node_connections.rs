//! Connections with the certificate of a node's component. Authentication checks the certificate for each request, but
//! watches, logs and proxied requests last for hours. These requests end when their Node is removed or the certificate
//! becomes invalid.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::certificates::NodeIdentity;
use api::kind;
use jiff::Timestamp;
use store::{Index, StoreError};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::access::authentication::{Identity, node_certificates};
use crate::shutdown::Shutdown;
use crate::transport::long_running::Revocation;
use crate::verbs::resource::Resources;

/// Longest delay between the end of a certificate's validity and the end of its long-running requests.
const EXPIRY_CHECK_PERIOD: Duration = Duration::from_secs(10);
/// Delay before a failed watch on Nodes is started again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Connections by name of the Node. The connection limits bound their number.
#[derive(Debug, Default)]
pub(crate) struct NodeConnections(Mutex<HashMap<String, Vec<Arc<NodeConnection>>>>);

/// Connection with the certificate of a node component.
#[derive(Debug)]
struct NodeConnection {
    identity: Arc<Identity>,
    /// Receives a value each time that a check finds the certificate invalid.
    revoked: watch::Sender<()>,
}

/// Registration of a connection; dropping it removes the connection.
#[derive(Debug)]
pub(super) struct Registration {
    all: Arc<NodeConnections>,
    node_name: String,
    connection: Arc<NodeConnection>,
}

impl Registration {
    /// Returns the revocation for a request that begins now.
    pub(super) fn revocation(&self) -> Revocation {
        Revocation::new(self.connection.revoked.subscribe())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(connections) = all.get_mut(&self.node_name) {
            connections.retain(|other| !Arc::ptr_eq(other, &self.connection));
            if connections.is_empty() {
                all.remove(&self.node_name);
            }
        }
    }
}

impl NodeConnections {
    /// Registers a connection. Returns `None` if the identity belongs to no Node.
    pub(super) fn register(self: &Arc<Self>, identity: &Arc<Identity>) -> Option<Registration> {
        let node_identity = NodeIdentity::of(&identity.user, &identity.groups)?;
        let node_name = node_identity.node_name.to_owned();
        let connection = Arc::new(NodeConnection {
            identity: identity.clone(),
            revoked: watch::Sender::new(()),
        });
        self.lock()
            .entry(node_name.clone())
            .or_default()
            .push(connection.clone());
        Some(Registration {
            all: self.clone(),
            node_name,
            connection,
        })
    }

    /// Ends the long-running requests of a Node whose certificates are no longer valid.
    fn revoke_node(&self, node_name: &str, index: &Index, now: Timestamp) {
        let all = self.lock();
        for connection in all.get(node_name).into_iter().flatten() {
            connection.revoke_if_rejected(index, now);
        }
    }

    /// Ends the long-running requests of all Nodes whose certificates are no longer valid.
    fn revoke_all(&self, index: &Index, now: Timestamp) {
        for connection in self.lock().values().flatten() {
            connection.revoke_if_rejected(index, now);
        }
    }

    /// Ends the long-running requests with certificates whose grace period without a Node has ended.
    fn revoke_expired(&self, index: &Index, now: Timestamp) {
        for connection in self.lock().values().flatten() {
            let certificate = connection.identity.certificate.as_ref();
            if certificate.is_some_and(|certificate| certificate.may_be_expired(now)) {
                connection.revoke_if_rejected(index, now);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<NodeConnection>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NodeConnection {
    fn revoke_if_rejected(&self, index: &Index, now: Timestamp) {
        if let Err(rejection) = node_certificates::check(&self.identity, index, now) {
            tracing::debug!(user = self.identity.user, %rejection, "long-running requests ended: certificate not valid any more");
            self.revoked.send_replace(());
        }
    }
}

/// Watches Nodes, and revokes certificates of removed ones, until the server shuts down.
pub(crate) async fn revoke_certificates_of_removed_nodes(
    resources: Arc<Resources>,
    connections: Arc<NodeConnections>,
    mut shutdown: Shutdown,
) {
    let index = resources.store.index();
    let Some(nodes) = kind::find("", "v1", "nodes") else {
        return;
    };
    let prefix = nodes.store_prefix(None);
    let mut expiry_check = tokio::time::interval(EXPIRY_CHECK_PERIOD);
    expiry_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut changes = match index.watch(&prefix, index.revision()) {
            Ok(changes) => changes,
            Err(error) => {
                tracing::warn!(%error, "watch on Nodes not started");
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
        };
        // For Nodes that were removed before the watch began.
        connections.revoke_all(index, Timestamp::now());
        loop {
            tokio::select! {
                () = shutdown.requested() => return,
                _ = expiry_check.tick() => connections.revoke_expired(index, Timestamp::now()),
                event = changes.next() => match event {
                    Ok(event) => {
                        let name = event.key.strip_prefix(&prefix).unwrap_or_default();
                        connections.revoke_node(name, index, Timestamp::now());
                    }
                    Err(StoreError::Lagged { .. }) => break,
                    Err(error) => {
                        return tracing::error!(%error, "watch on Nodes ended; watches of removed Nodes continue");
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests;
