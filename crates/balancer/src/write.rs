//! Carrying out steps: requests to the API, and Events.

use std::sync::{Arc, Mutex, PoisonError};

use api::object::{AddressPool, AddressPoolUsage, IngressPort, ObjectKey, Resource, Service};
use client::events::{Correlator, Occurrence};
use client::{Client, ClientError, MERGE_PATCH, STRATEGIC_PATCH, WallClock};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::core::{
    ANNOUNCED_CONDITION, Assigned, CONDITION, CONDITIONS, FINALIZER, REMARKS_CONDITION, StatusChange, Step,
    Told,
};

/// Who tells Events, under upstream's name (CCM-02).
const COMPONENT: &str = "service-controller";

/// What steps are carried out with.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) client: Client,
    pub(crate) clock: WallClock,
    pub(crate) events: Arc<Mutex<Correlator>>,
}

impl Writer {
    /// Carries out a step on `service`; the Service as the server has it afterwards, `None` if it is gone. Every write
    /// is of the version that the step was decided on: somebody else's write meanwhile is a conflict, and its
    /// news leads to another step.
    pub(crate) async fn carry_out(
        &self,
        mut service: Service,
        step: Step,
    ) -> Result<Option<Service>, ClientError> {
        let path = format!(
            "{}/{}",
            Service::collection(Some(&service.metadata.namespace)),
            service.metadata.name
        );
        self.tell(&service, &step.before).await;
        let mut is_gone = false;
        if step.adds_finalizer {
            let patch = finalizers(&service, true);
            service = self.patch(&path, MERGE_PATCH, &service, patch).await?;
        }
        if let Some(change) = &step.status {
            let patch = status(change, self.clock.now());
            service = self
                .patch(&format!("{path}/status"), STRATEGIC_PATCH, &service, patch)
                .await?;
        }
        if step.removes_finalizer {
            let patch = finalizers(&service, false);
            match self.patch(&path, MERGE_PATCH, &service, patch).await {
                Ok(released) => {
                    // The last finalizer was all that held it: the answer is its last state.
                    is_gone = released.metadata.deletion_timestamp.is_some()
                        && released.metadata.finalizers.is_empty();
                    service = released;
                }
                Err(error) if error.is_not_found() => is_gone = true,
                Err(error) => return Err(error),
            }
        }
        self.tell(&service, &step.after).await;
        Ok((!is_gone).then_some(service))
    }

    /// Writes how much of a pool is in use.
    pub(crate) async fn write_usage(
        &self,
        pool: &AddressPool,
        usage: &[AddressPoolUsage],
    ) -> Result<(), ClientError> {
        let path = format!("{}/{}/status", AddressPool::collection(None), pool.metadata.name);
        let patch = json!({"metadata": {"uid": pool.metadata.uid}, "status": {"usage": usage}});
        match self
            .client
            .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
            .await
        {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    async fn patch(
        &self,
        path: &str,
        kind: &str,
        service: &Service,
        mut patch: Value,
    ) -> Result<Service, ClientError> {
        patch["metadata"]["uid"] = json!(service.metadata.uid);
        patch["metadata"]["resourceVersion"] = json!(service.metadata.resource_version);
        let answer = self
            .client
            .request(Method::PATCH, path, kind, Some(&patch))
            .await?;
        serde_json::from_value(answer).map_err(|source| ClientError::Decode {
            path: path.to_owned(),
            source,
        })
    }

    /// Tells Events about a Service. They are best effort: a failure is logged, and not tried again.
    async fn tell(&self, service: &Service, told: &[Told]) {
        let meta = &service.metadata;
        for told in told {
            let occurrence = Occurrence {
                component: COMPONENT.to_owned(),
                involved: json!({
                    "apiVersion": "v1", "kind": "Service",
                    "namespace": meta.namespace, "name": meta.name, "uid": meta.uid,
                }),
                namespace: meta.namespace.clone(),
                is_warning: told.is_warning,
                reason: told.reason.to_owned(),
                message: told.message.clone(),
            };
            let posting = {
                let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
                events.observe(&occurrence, self.clock.now())
            };
            let key = ObjectKey::new(&meta.namespace, &meta.name);
            let Some(posting) = posting else {
                tracing::debug!(service = %key, reason = told.reason, "the Service tells too much, an Event is dropped");
                continue;
            };
            if let Err(error) = client::events::post(&self.client, &meta.namespace, posting).await {
                tracing::warn!(service = %key, reason = told.reason, %error, "an Event was lost");
            }
        }
    }
}

fn finalizers(service: &Service, has_ours: bool) -> Value {
    let others = service.metadata.finalizers.iter().map(String::as_str);
    let mut finalizers: Vec<&str> = others.filter(|name| *name != FINALIZER).collect();
    if has_ours {
        finalizers.push(FINALIZER);
    }
    json!({"metadata": {"finalizers": finalizers}})
}

/// The strategic merge patch of a status.
fn status(change: &StatusChange, now: Timestamp) -> Value {
    let remove = |kind: &str| json!({"$patch": "delete", "type": kind});
    let (ingress, conditions) = match change {
        StatusChange::Clear => (Value::Null, CONDITIONS.map(remove).to_vec()),
        StatusChange::Say(assigned) => {
            // These are there only as long as something is not as it should be.
            let unless_empty = |kind: &str, reason: &str, text: &str| match text {
                "" => remove(kind),
                text => condition(kind, "False", reason, text, now),
            };
            let conditions = vec![
                assignment(assigned, now),
                unless_empty(REMARKS_CONDITION, "NotInForce", &assigned.remarks),
                unless_empty(ANNOUNCED_CONDITION, "NoNode", &assigned.unannounced),
            ];
            (ingress(assigned), conditions)
        }
    };
    json!({"metadata": {}, "status": {"loadBalancer": {"ingress": ingress}, "conditions": conditions}})
}

/// The list as it should be.
fn ingress(assigned: &Assigned) -> Value {
    if assigned.addresses.is_empty() {
        return Value::Null;
    }
    let entries = assigned.addresses.iter().map(|address| {
        let ip = address.to_string();
        let mut entry = json!({"ip": ip, "ipMode": assigned.mode.as_str()});
        if let Some(hostname) = &assigned.hostname {
            entry["hostname"] = json!(hostname);
        }
        if let Some(ports) = assigned.ports.get(address) {
            entry["ports"] = ports.iter().map(port_status).collect();
        }
        entry
    });
    entries.collect()
}

/// A state of a port as the API has it.
fn port_status(port: &IngressPort) -> Value {
    let mut value = json!({"port": port.port, "protocol": port.protocol});
    if let Some(error) = &port.error {
        value["error"] = json!(error);
    }
    value
}

fn assignment(assigned: &Assigned, now: Timestamp) -> Value {
    if assigned.why_not.is_empty() {
        let message = "The addresses in status.loadBalancer are assigned";
        condition(CONDITION, "True", "Assigned", message, now)
    } else {
        condition(CONDITION, "False", "NoAddress", &assigned.why_not, now)
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time,
    })
}
