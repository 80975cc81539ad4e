//! Carrying out steps on ServiceCIDRs.

use std::time::Duration;

use api::object::{IpAddress, Resource, ServiceCidr};
use client::{Client, ClientError, MERGE_PATCH, STRATEGIC_PATCH};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::reconcile::would_orphan;
use super::{FINALIZER, Inputs, MANAGED_BY, MANAGED_BY_LABEL, Step};
use crate::write::{decode, list_all};

/// What became of a ServiceCIDR.
#[derive(Debug)]
pub(super) enum Written {
    /// The server has it like this now.
    Now(Box<ServiceCidr>),
    /// It is gone.
    Gone,
}

/// Writes a step; returns what became of the ServiceCIDR, nothing if it is not to be released after all. Somebody
/// else's write since `cidr` was read is a conflict.
pub(super) async fn carry_out(
    client: &Client,
    cidr: &ServiceCidr,
    step: Step,
    now: Timestamp,
) -> Result<Option<Written>, ClientError> {
    if step == Step::Release && is_needed(client, cidr).await? {
        // What made it so is on its way to the caches.
        return Ok(None);
    }
    let object = format!("{}/{}", ServiceCidr::collection(None), cidr.metadata.name);
    let (path, kind, patch) = match step {
        Step::Hold | Step::Release => (object, MERGE_PATCH, finalizers(cidr, step)),
        Step::SayReady => {
            let ready = condition("True", "", "Kubernetes Service CIDR is ready", now);
            (format!("{object}/status"), STRATEGIC_PATCH, ready)
        }
        Step::SayWaiting => {
            let why = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR";
            let waiting = condition("False", "Terminating", why, now);
            (format!("{object}/status"), STRATEGIC_PATCH, waiting)
        }
    };
    let mut patch = patch;
    patch["metadata"]["uid"] = json!(cidr.metadata.uid);
    patch["metadata"]["resourceVersion"] = json!(cidr.metadata.resource_version);
    match client.request(Method::PATCH, &path, kind, Some(&patch)).await {
        Ok(answer) => {
            let cidr: ServiceCidr = decode(path, answer)?;
            // The last finalizer is all that holds one that is deleted: then the answer is its last state.
            let is_held = cidr.metadata.deletion_timestamp.is_none() || !cidr.metadata.finalizers.is_empty();
            Ok(Some(if is_held {
                Written::Now(Box::new(cidr))
            } else {
                Written::Gone
            }))
        }
        Err(error) if error.is_not_found() => Ok(Some(Written::Gone)),
        Err(error) => Err(error),
    }
}

/// Whether, by what the server has now, an address would be in no range any more: an address that the watch has not
/// told of yet must not be left behind.
async fn is_needed(client: &Client, cidr: &ServiceCidr) -> Result<bool, ClientError> {
    let managed = format!("{MANAGED_BY_LABEL}={MANAGED_BY}");
    let addresses = list_all::<IpAddress>(client, &managed).await?.items;
    let addresses = addresses
        .iter()
        .filter_map(|address| address.metadata.name.parse().ok());
    let all = list_all::<ServiceCidr>(client, "").await?.items;
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
    if step == Step::Hold {
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
