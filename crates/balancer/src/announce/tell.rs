//! Events about which node announces a Service, as MetalLB tells them.

use std::sync::{Arc, Mutex, PoisonError};

use api::object::ObjectKey;
use client::events::{Correlator, Occurrence};
use client::{Client, WallClock};
use serde_json::json;
use tokio::task::JoinSet;

/// Who tells them.
const COMPONENT: &str = "portolan-announcer";
/// Events on their way at once. What is beyond is not told: the next owner is.
const UNDER_WAY_MAX: usize = 64;

/// Tells Events. They are best effort: a failure is logged, and not tried again.
pub(super) struct Teller {
    client: Client,
    clock: WallClock,
    node_name: String,
    told: Arc<Mutex<Correlator>>,
    under_way: JoinSet<()>,
}

impl Teller {
    pub(super) fn new(client: Client, clock: WallClock, node_name: String) -> Self {
        Self {
            client,
            clock,
            node_name,
            told: Arc::default(),
            under_way: JoinSet::new(),
        }
    }

    /// This node announces a Service now.
    pub(super) fn tell_assigned(&mut self, service: &ObjectKey, uid: &str) {
        while self.under_way.try_join_next().is_some() {}
        if self.under_way.len() >= UNDER_WAY_MAX {
            tracing::debug!(%service, "too much is told at once, an Event is dropped");
            return;
        }
        let occurrence = Occurrence {
            component: COMPONENT.to_owned(),
            involved: json!({
                "apiVersion": "v1", "kind": "Service",
                "namespace": &*service.namespace, "name": &*service.name, "uid": uid,
            }),
            namespace: service.namespace.to_string(),
            is_warning: false,
            reason: "nodeAssigned".to_owned(),
            message: format!(
                "announcing from node {:?} with protocol \"layer2\"",
                self.node_name
            ),
        };
        let posting = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.observe(&occurrence, self.clock.now())
        };
        let Some(posting) = posting else { return };
        let (client, service) = (self.client.clone(), service.clone());
        self.under_way.spawn(async move {
            if let Err(error) = client::events::post(&client, &service.namespace, posting).await {
                tracing::warn!(%service, %error, "an Event was lost");
            }
        });
    }
}
