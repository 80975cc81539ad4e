//! Writes of Services, AddressPools and Events.

use api::object::{AddressPool, IngressPort, Resource, Service};
use client::events::{EventRecorder, EventText};
use client::{Client, ClientError, MERGE_PATCH, STRATEGIC_PATCH, WallClock};
use http::Method;
use jiff::Timestamp;
use reconcile::rewrites;
use serde_json::{Value, json};

use super::state::addresses_of;
use super::{
    ANNOTATIONS_CONDITION, ANNOUNCED_CONDITION, ASSIGNED_CONDITION, Assignment, CONDITIONS, FINALIZER,
    NODE_ADDRESSES_REASON, PoolUpdate, ServiceUpdate, StatusChange,
};
use crate::metallb::objects::IpAddressPool;
use crate::metallb::{POOL_ANNOTATION, POOL_ANNOTATION_BEFORE};
use crate::two_tier::POOL_TWO_TIER_ANNOTATION;

/// Component of Events: upstream's name (CCM-02).
const COMPONENT: &str = "service-controller";

/// Client, clock and Event aggregation of writes.
#[derive(Clone)]
pub(super) struct StatusWriter {
    pub(super) client: Client,
    pub(super) clock: WallClock,
    pub(super) events: EventRecorder,
}

impl StatusWriter {
    /// Writes an update. Returns the Service as stored, or `None` if it is deleted. Every write names the
    /// resourceVersion on which the update is based. A concurrent write is a conflict, and its watch event
    /// leads to another update.
    ///
    /// If the server does not store a status that withdraws addresses, such as one that makes the Service too large, the
    /// addresses and conditions are removed. Other Services may get the addresses, and nodes would serve both.
    pub(super) async fn write_update(
        &self,
        service: Service,
        update: ServiceUpdate,
    ) -> Result<Option<Service>, ClientError> {
        let before = withdraws(&service, &update).then(|| service.clone());
        let outcome = self.write(service, update).await;
        let is_refused = outcome.as_ref().err().is_some_and(is_refused);
        if let Some(service) = before.filter(|_| is_refused) {
            let path = format!("{}/status", path_of(&service));
            let cleared = status(&StatusChange::Clear, self.clock.now());
            self.patch(&path, STRATEGIC_PATCH, &service, cleared).await?;
        }
        outcome
    }

    async fn write(
        &self,
        mut service: Service,
        update: ServiceUpdate,
    ) -> Result<Option<Service>, ClientError> {
        let path = path_of(&service);
        self.record(&service, &update.events_before).await;
        let mut is_deleted = false;
        if update.adds_finalizer || update.pools.is_some() || update.pool_two_tier.is_some() {
            let patch = metadata(&service, &update);
            service = self.patch(&path, MERGE_PATCH, &service, patch).await?;
        }
        if let Some(change) = &update.status {
            let patch = status(change, self.clock.now());
            service = self
                .patch(&format!("{path}/status"), STRATEGIC_PATCH, &service, patch)
                .await?;
        }
        if update.removes_finalizer {
            let patch = finalizers(&service, false);
            match self.patch(&path, MERGE_PATCH, &service, patch).await {
                Ok(released) => {
                    // Without its last finalizer the object is deleted; the response is its last state.
                    is_deleted = released.metadata.deletion_timestamp.is_some()
                        && released.metadata.finalizers.is_empty();
                    service = released;
                }
                Err(error) if error.is_not_found() => is_deleted = true,
                Err(error) => return Err(error),
            }
        }
        self.record(&service, &update.events_after).await;
        Ok((!is_deleted).then_some(service))
    }

    /// Writes the status of a pool.
    pub(super) async fn write_pool(&self, update: &PoolUpdate) -> Result<(), ClientError> {
        let (path, patch) = match update {
            PoolUpdate::AddressPool { name, uid, status } => {
                let conditions = status.conditions.iter().map(|present| {
                    condition(
                        &present.kind,
                        &present.status,
                        &present.reason,
                        &present.message,
                        self.clock.now(),
                    )
                });
                let conditions: Vec<Value> = conditions.collect();
                let status = json!({"usage": status.usage, "conditions": conditions});
                (
                    format!("{}/{name}/status", AddressPool::collection(None)),
                    json!({"metadata": {"uid": uid}, "status": status}),
                )
            }
            PoolUpdate::MetalLb {
                namespace,
                name,
                uid,
                status,
            } => (
                format!("{}/{name}/status", IpAddressPool::collection(Some(namespace))),
                json!({"metadata": {"uid": uid}, "status": status}),
            ),
        };
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
        let malformed = |source| ClientError::Decode {
            path: path.to_owned(),
            source,
        };
        let body = serde_json::to_vec(&patch).map_err(malformed)?;
        let response = self.client.send(Method::PATCH, path, kind, body.into()).await?;
        rewrites::count(response.len());
        serde_json::from_slice(&response).map_err(malformed)
    }

    /// Records Events about a Service.
    async fn record(&self, service: &Service, events: &[EventText]) {
        self.events.record(COMPONENT, service, events.to_vec()).await;
    }
}

fn path_of(service: &Service) -> String {
    let meta = &service.metadata;
    format!("{}/{}", Service::collection(Some(&meta.namespace)), meta.name)
}

/// Returns true if an update removes an address from the status.
fn withdraws(service: &Service, update: &ServiceUpdate) -> bool {
    let Some(StatusChange::Set(assignment)) = &update.status else {
        return false;
    };
    let mut present = addresses_of(service).into_iter();
    !assignment.keeps_status && present.any(|address| !assignment.addresses.contains(&address))
}

/// Returns true if the server does not accept the object. A retry with the same object fails as well.
fn is_refused(error: &ClientError) -> bool {
    matches!(error.code(), Some(400 | 413 | 422 | 500))
}

/// Returns the merge patch of the finalizer and of the annotations about the pools.
fn metadata(service: &Service, update: &ServiceUpdate) -> Value {
    let mut patch = if update.adds_finalizer {
        finalizers(service, true)
    } else {
        json!({"metadata": {}})
    };
    if let Some(pools) = &update.pools {
        let value = (!pools.is_empty()).then_some(pools);
        patch["metadata"]["annotations"] = json!({POOL_ANNOTATION: value, POOL_ANNOTATION_BEFORE: null});
    }
    if let Some(is_two_tier) = update.pool_two_tier {
        let value = is_two_tier.then_some("true");
        patch["metadata"]["annotations"][POOL_TWO_TIER_ANNOTATION] = json!(value);
    }
    patch
}

fn finalizers(service: &Service, has_ours: bool) -> Value {
    let others = service.metadata.finalizers.iter().map(String::as_str);
    let mut finalizers: Vec<&str> = others.filter(|name| *name != FINALIZER).collect();
    if has_ours {
        finalizers.push(FINALIZER);
    }
    json!({"metadata": {"finalizers": finalizers}})
}

/// Returns the strategic merge patch of a status.
fn status(change: &StatusChange, now: Timestamp) -> Value {
    let remove = |kind: &str| json!({"$patch": "delete", "type": kind});
    let mut keeps_ingress = false;
    let (ingress, conditions) = match change {
        StatusChange::Clear => (Value::Null, CONDITIONS.map(remove).to_vec()),
        StatusChange::Set(assignment) => {
            // These conditions are present only while they are false.
            let unless_empty = |kind: &str, reason: &str, text: &str| match text {
                "" => remove(kind),
                text => condition(kind, "False", reason, text, now),
            };
            let conditions = vec![
                assigned_condition(assignment, now),
                unless_empty(ANNOTATIONS_CONDITION, "NotInForce", &assignment.findings),
                unless_empty(ANNOUNCED_CONDITION, "NoNode", &assignment.announcement_failure),
            ];
            keeps_ingress = assignment.keeps_status;
            (ingress(assignment), conditions)
        }
    };
    if keeps_ingress {
        return json!({"metadata": {}, "status": {"conditions": conditions}});
    }
    json!({"metadata": {}, "status": {"loadBalancer": {"ingress": ingress}, "conditions": conditions}})
}

/// Returns `status.loadBalancer.ingress`.
fn ingress(assignment: &Assignment) -> Value {
    if assignment.addresses.is_empty() {
        return Value::Null;
    }
    let entries = assignment.addresses.iter().map(|address| {
        let ip = address.to_string();
        let mut entry = json!({"ip": ip, "ipMode": assignment.mode.as_str()});
        if let Some(hostname) = &assignment.hostname {
            entry["hostname"] = json!(hostname);
        }
        if let Some(states) = assignment.port_states.get(address) {
            entry["ports"] = states.iter().map(port_state).collect();
        }
        entry
    });
    entries.collect()
}

/// Returns the entry of `status.loadBalancer.ingress[].ports`.
fn port_state(port: &IngressPort) -> Value {
    let mut value = json!({"port": port.port, "protocol": port.protocol});
    if let Some(error) = &port.error {
        value["error"] = json!(error);
    }
    value
}

fn assigned_condition(assignment: &Assignment, now: Timestamp) -> Value {
    if assignment.failure.is_empty() {
        let message = "The addresses in status.loadBalancer are assigned";
        let reason = if assignment.is_of_nodes {
            NODE_ADDRESSES_REASON
        } else {
            "Assigned"
        };
        condition(ASSIGNED_CONDITION, "True", reason, message, now)
    } else {
        condition(ASSIGNED_CONDITION, "False", "NoAddress", &assignment.failure, now)
    }
}

fn condition(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({
        "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time,
    })
}
