//! Admission of assigned load balancer IPs. Announcers announce the addresses of a Service with the condition
//! `portolan.dev/AddressAssigned`. Only the assigner may set it: a user with the right to update the status of
//! AddressPools. Other users with the right to write `services/status` may neither add the condition nor change
//! addresses while it is true. They may remove the condition, which ends the announcement.

use api::rbac::Action;
use api::tree::{child, clear, items, text};
use serde_json::Value;

use super::{Admission, WriteAttempt};
use crate::access::authorization::{Attributes, AuthorizationDecision};
use crate::failure::Failure;

/// Condition of a Service whose addresses are assigned.
const CONDITION: &str = "portolan.dev/AddressAssigned";

/// Admits an update of a Service's status.
pub(super) fn admit(
    admission: &Admission,
    attempt: &WriteAttempt<'_>,
    service: &Value,
) -> Result<(), Failure> {
    let Some(requester) = attempt.requester else {
        return Ok(());
    };
    let after = assigned_addresses(service);
    if after.is_none() || after == attempt.stored.and_then(assigned_addresses) {
        return Ok(());
    }
    let is_assigner = ["patch", "update"].into_iter().any(|verb| {
        let action = Action::Resource {
            verb,
            group: "portolan.dev",
            resource: "addresspools",
            subresource: "status",
            name: "",
        };
        let attributes = Attributes::new(requester, "", action);
        matches!(
            admission.authorizer.decide(&attributes),
            AuthorizationDecision::Allowed(_)
        )
    });
    if is_assigner {
        return Ok(());
    }
    let message = format!(
        "user {:?} may not record assigned addresses (condition {CONDITION}): this requires the right to update \
         addresspools/status",
        requester.user
    );
    Err(Failure::forbidden(
        attempt.target.kind,
        attempt.target.name(),
        &message,
    ))
}

/// Returns the assigned addresses without the states of their ports; `None` without the condition.
pub(super) fn assigned_addresses(service: &Value) -> Option<Vec<Value>> {
    let status = child(service, "status");
    let is_assigned =
        |condition: &Value| text(condition, "type") == CONDITION && text(condition, "status") == "True";
    if !items(status, "conditions").iter().any(is_assigned) {
        return None;
    }
    let entries = items(child(status, "loadBalancer"), "ingress").iter().cloned();
    let without_ports = entries.map(|mut entry| {
        clear(&mut entry, "ports");
        entry
    });
    Some(without_ports.collect())
}

#[cfg(test)]
mod tests;
