//! Events of a node about Services.

use std::sync::{Arc, Mutex, PoisonError};

use api::object::ObjectKey;
use client::events::{Correlator, Occurrence};
use client::{Client, WallClock};
use serde_json::json;
use tokio::task::JoinSet;

/// Events on their way at once. What is beyond is not told.
const UNDER_WAY_MAX: usize = 64;

/// Tells Events. They are best effort: a failure is logged, and not tried again.
pub(crate) struct Teller {
    client: Client,
    clock: WallClock,
    component: &'static str,
    told: Arc<Mutex<Correlator>>,
    under_way: JoinSet<()>,
}

impl Teller {
    /// One that tells under the name of a component.
    pub(crate) fn new(client: Client, clock: WallClock, component: &'static str) -> Self {
        Self {
            client,
            clock,
            component,
            told: Arc::default(),
            under_way: JoinSet::new(),
        }
    }

    /// Tells something about a Service.
    pub(crate) fn tell(
        &mut self,
        service: &ObjectKey,
        uid: &str,
        is_warning: bool,
        reason: &str,
        message: String,
    ) {
        while self.under_way.try_join_next().is_some() {}
        if self.under_way.len() >= UNDER_WAY_MAX {
            tracing::debug!(%service, "too much is told at once, an Event is dropped");
            return;
        }
        let occurrence = Occurrence {
            component: self.component.to_owned(),
            involved: json!({
                "apiVersion": "v1", "kind": "Service",
                "namespace": &*service.namespace, "name": &*service.name, "uid": uid,
            }),
            namespace: service.namespace.to_string(),
            is_warning,
            reason: reason.to_owned(),
            message,
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
