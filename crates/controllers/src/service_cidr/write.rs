//! Carrying out steps on ServiceCIDRs.

use api::object::{Resource, ServiceCidr};
use client::{Client, ClientError, MERGE_PATCH, STRATEGIC_PATCH};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{FINALIZER, Step};
use crate::write::decode;

/// Writes a step; returns the ServiceCIDR as the server has it now, none if it is gone. Somebody else's write
/// since `cidr` was read is a conflict.
pub(crate) async fn carry_out(
    client: &Client,
    cidr: &ServiceCidr,
    step: Step,
    now: Timestamp,
) -> Result<Option<ServiceCidr>, ClientError> {
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
        // The last finalizer was all that held it: the answer is its last state.
        Ok(_) if step == Step::Release => Ok(None),
        Ok(answer) => decode(path, answer).map(Some),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
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
