//! Events about Services and the Node, as `kubectl describe` shows them (KPR-08).

use api::object::ObjectKey;
use client::Client;
use http::Method;
use jiff::Timestamp;
use serde_json::json;

/// Recorder of Events. Writing is best effort; nothing waits for it.
#[derive(Clone)]
pub(crate) struct Events {
    client: Option<Client>,
    node_name: String,
}

impl Events {
    /// Creates a recorder for this node that writes through `client`.
    pub(crate) fn new(client: Client, node_name: &str) -> Self {
        Self {
            client: Some(client),
            node_name: node_name.to_owned(),
        }
    }

    /// Creates a recorder that discards Events.
    #[cfg(test)]
    pub(crate) fn discarding() -> Self {
        Self {
            client: None,
            node_name: String::new(),
        }
    }

    /// Records a warning about the Service with the UID `uid`. `kubectl describe` finds Events by the UID.
    pub(crate) fn record_service_warning(
        &self,
        service: &ObjectKey,
        uid: &str,
        reason: &str,
        message: String,
    ) {
        let involved = json!({
            "apiVersion": "v1", "kind": "Service",
            "namespace": &*service.namespace, "name": &*service.name, "uid": uid,
        });
        self.send(
            &service.namespace,
            &service.name,
            "Warning",
            reason,
            message,
            involved,
        );
    }

    /// Records a normal Event about this Node.
    pub(crate) fn record_node_event(&self, reason: &str, message: String) {
        let involved = json!({"kind": "Node", "name": self.node_name, "uid": self.node_name});
        self.send("default", &self.node_name, "Normal", reason, message, involved);
    }

    /// Records a warning about this Node.
    pub(crate) fn record_node_warning(&self, reason: &str, message: String) {
        let involved = json!({"kind": "Node", "name": self.node_name, "uid": self.node_name});
        self.send("default", &self.node_name, "Warning", reason, message, involved);
    }

    fn send(
        &self,
        namespace: &str,
        name: &str,
        kind: &str,
        reason: &str,
        message: String,
        involved: serde_json::Value,
    ) {
        let Some(client) = self.client.clone() else { return };
        let now = Timestamp::now();
        let event = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": format!("{name}.{:x}", now.as_nanosecond()), "namespace": namespace},
            "involvedObject": involved,
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": "kube-proxy", "host": self.node_name},
            "reportingComponent": "kube-proxy",
            "reportingInstance": self.node_name,
            "firstTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "lastTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "count": 1,
        });
        let path = format!("/api/v1/namespaces/{namespace}/events");
        tokio::spawn(async move {
            if let Err(error) = client
                .request(Method::POST, &path, client::JSON, Some(&event))
                .await
            {
                tracing::debug!(%error, "Event not written");
            }
        });
    }
}
