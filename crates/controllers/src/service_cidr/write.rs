//! Execution of writes of ServiceCIDRs: finalizers and conditions.

use std::time::Duration;

use api::object::{IpAddress, Resource, ServiceCidr};
use client::{Client, ClientError, MERGE_PATCH, STRATEGIC_PATCH};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::reconcile::would_orphan;
use super::{FINALIZER, Inputs, MANAGED_BY, MANAGED_BY_LABEL, Step};
use crate::api_requests::{decode, list_all};

/// The result of a write.
#[derive(Debug)]
pub(super) enum WriteResult {
    /// The ServiceCIDR after the write.
    Current(Box<ServiceCidr>),
    /// The ServiceCIDR is deleted.
    Deleted,
}

/// Writes a step; returns the result, `None` if the finalizer is still needed. A write by another client
/// since the read is a conflict.
pub(super) async fn execute(
    client: &Client,
    cidr: &ServiceCidr,
    step: Step,
    now: Timestamp,
) -> Result<Option<WriteResult>, ClientError> {
    if step == Step::RemoveFinalizer && is_needed(client, cidr).await? {
        // The watch will report the address or range that requires it.
        return Ok(None);
    }
    let object = format!("{}/{}", ServiceCidr::collection(None), cidr.metadata.name);
    let (path, kind, patch) = match step {
        Step::AddFinalizer | Step::RemoveFinalizer => (object, MERGE_PATCH, finalizers(cidr, step)),
        Step::SetReady => {
            let ready = condition("True", "", "Kubernetes Service CIDR is ready", now);
            (format!("{object}/status"), STRATEGIC_PATCH, ready)
        }
        Step::SetTerminating => {
            let why = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";
            let waiting = condition("False", "Terminating", why, now);
            (format!("{object}/status"), STRATEGIC_PATCH, waiting)
        }
    };
    let mut patch = patch;
    patch["metadata"]["uid"] = json!(cidr.metadata.uid);
    patch["metadata"]["resourceVersion"] = json!(cidr.metadata.resource_version);
    match client.request(Method::PATCH, &path, kind, Some(&patch)).await {
        Ok(response) => {
            let cidr: ServiceCidr = decode(path, response)?;
            // Without a finalizer, an object that is being deleted does not exist any more; the response has its last
            // state.
            let is_held = cidr.metadata.deletion_timestamp.is_none() || !cidr.metadata.finalizers.is_empty();
            Ok(Some(if is_held {
                WriteResult::Current(Box::new(cidr))
            } else {
                WriteResult::Deleted
            }))
        }
        Err(error) if error.is_not_found() => Ok(Some(WriteResult::Deleted)),
        Err(error) => Err(error),
    }
}

/// Returns true if, in the current state of the server, an address would be in no range without this one. The
/// caches may lack a new address.
async fn is_needed(client: &Client, cidr: &ServiceCidr) -> Result<bool, ClientError> {
    let managed = format!("{MANAGED_BY_LABEL}={MANAGED_BY}");
    // Concurrent requests shorten the time in which an address can be added before the write.
    let (addresses, all) = tokio::try_join!(
        list_all::<IpAddress>(client, &managed),
        list_all::<ServiceCidr>(client, ""),
    )?;
    let (addresses, all) = (addresses.items, all.items);
    let addresses = addresses
        .iter()
        .filter_map(|address| address.metadata.name.parse().ok());
    let inputs = Inputs {
        cidr,
        all: &all.iter().collect::<Vec<_>>(),
        addresses: &addresses.collect(),
        deleted_for: Duration::ZERO,
    };
    Ok(would_orphan(&inputs))
}

fn finalizers(cidr: &ServiceCidr, step: Step) -> Value {
    let others = cidr.metadata.finalizers.iter().map(String::as_str);
    let mut finalizers: Vec<&str> = others.filter(|name| *name != FINALIZER).collect();
    if step == Step::AddFinalizer {
        finalizers.push(FINALIZER);
    }
    json!({"metadata": {"finalizers": finalizers}})
}

fn condition(status: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    json!({"metadata": {}, "status": {"conditions": [{
        "type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": time,
    }]}})
}
