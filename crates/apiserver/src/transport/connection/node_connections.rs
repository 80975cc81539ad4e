//! Connections with the certificate of a Node's machine. What lasts on them (watches, logs, what is passed on to Pods) ends
//! once the certificate does not count any more: each request is checked by itself, and these last for hours.

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
use crate::transport::long_running::Cut;
use crate::verbs::resource::Resources;

/// Longest delay between the end of a certificate and the end of its long-running responses.
const LAPSE_PERIOD: Duration = Duration::from_secs(10);
/// Pause after the Nodes could not be followed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The connections of each Node's machine. Their number is bounded by the census.
#[derive(Debug, Default)]
pub(crate) struct NodeConnections(Mutex<HashMap<String, Vec<Arc<NodeConnection>>>>);

/// One of them.
#[derive(Debug)]
struct NodeConnection {
    identity: Arc<Identity>,
    /// Told each time that the certificate is found not to count.
    cuts: watch::Sender<()>,
}

/// A connection among them, until this is dropped.
#[derive(Debug)]
pub(super) struct Registered {
    all: Arc<NodeConnections>,
    node_name: String,
    connection: Arc<NodeConnection>,
}

impl Registered {
    /// The end of what begins to last now.
    pub(super) fn cut(&self) -> Cut {
        Cut::new(self.connection.cuts.subscribe())
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        if let Some(of_node) = all.get_mut(&self.node_name) {
            of_node.retain(|other| !Arc::ptr_eq(other, &self.connection));
            if of_node.is_empty() {
                all.remove(&self.node_name);
            }
        }
    }
}

impl NodeConnections {
    /// Registers a connection; `None` if the identity is of no Node.
    pub(super) fn register(self: &Arc<Self>, identity: &Arc<Identity>) -> Option<Registered> {
        let of_node = NodeIdentity::of(&identity.user, &identity.groups)?;
        let node_name = of_node.node_name.to_owned();
        let connection = Arc::new(NodeConnection {
            identity: identity.clone(),
            cuts: watch::Sender::new(()),
        });
        self.lock()
            .entry(node_name.clone())
            .or_default()
            .push(connection.clone());
        Some(Registered {
            all: self.clone(),
            node_name,
            connection,
        })
    }

    /// Ends what lasts on connections of a Node whose certificates count no longer.
    fn cut_of(&self, node_name: &str, index: &Index, now: Timestamp) {
        let all = self.lock();
        for connection in all.get(node_name).into_iter().flatten() {
            connection.cut_if_rejected(index, now);
        }
    }

    /// The same for the connections of all Nodes.
    fn cut_all(&self, index: &Index, now: Timestamp) {
        for connection in self.lock().values().flatten() {
            connection.cut_if_rejected(index, now);
        }
    }

    /// The same for certificates that time alone may have ended.
    fn cut_lapsed(&self, index: &Index, now: Timestamp) {
        for connection in self.lock().values().flatten() {
            let certificate = connection.identity.certificate.as_ref();
            if certificate.is_some_and(|certificate| certificate.may_be_expired(now)) {
                connection.cut_if_rejected(index, now);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Arc<NodeConnection>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NodeConnection {
    fn cut_if_rejected(&self, index: &Index, now: Timestamp) {
        if let Err(rejection) = node_certificates::check(&self.identity, index, now) {
            tracing::debug!(user = self.identity.user, %rejection, "requests that last ended");
            self.cuts.send_replace(());
        }
    }
}

/// Follows the Nodes, until the server ends.
pub(crate) async fn follow(
    resources: Arc<Resources>,
    connections: Arc<NodeConnections>,
    mut shutdown: Shutdown,
) {
    let index = resources.store.index();
    let Some(nodes) = kind::find("", "v1", "nodes") else {
        return;
    };
    let prefix = nodes.store_prefix(None);
    let mut lapse = tokio::time::interval(LAPSE_PERIOD);
    lapse.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut changes = match index.watch(&prefix, index.revision()) {
            Ok(changes) => changes,
            Err(error) => {
                tracing::warn!(%error, "Nodes cannot be followed yet");
                tokio::time::sleep(RETRY_PAUSE).await;
                continue;
            }
        };
        // Nodes that were removed before the watch began.
        connections.cut_all(index, Timestamp::now());
        loop {
            tokio::select! {
                () = shutdown.requested() => return,
                _ = lapse.tick() => connections.cut_lapsed(index, Timestamp::now()),
                event = changes.next() => match event {
                    Ok(event) => {
                        let name = event.key.strip_prefix(&prefix).unwrap_or_default();
                        connections.cut_of(name, index, Timestamp::now());
                    }
                    Err(StoreError::Lagged { .. }) => break,
                    Err(error) => return tracing::error!(%error, "removed Nodes are not followed any more"),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests;
