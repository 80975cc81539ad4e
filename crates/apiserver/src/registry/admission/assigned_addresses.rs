//! The record of assigned addresses. Announcers answer for the addresses of a Service whose condition
//! `portolan.dev/AddressAssigned` is true, and only what assigns addresses may say so: whoever may write the status of
//! AddressPools. Others with the right to write `services/status` may neither add such a condition nor change addresses
//! below it. They may take it away, and then nothing is announced.

use api::rbac::Action;
use api::tree::{child, clear, items, text};
use serde_json::Value;

use super::{Admission, Attempt};
use crate::access::authorization::{Attributes, Verdict};
use crate::failure::Failure;

/// The condition of a Service whose addresses are assigned.
const CONDITION: &str = "portolan.dev/AddressAssigned";

/// Admits a new status of a Service.
pub(super) fn admit(admission: &Admission, attempt: &Attempt<'_>, service: &Value) -> Result<(), Failure> {
    let Some(requester) = attempt.requester else {
        return Ok(());
    };
    let after = assigned(service);
    if after.is_none() || after == attempt.stored.and_then(assigned) {
        return Ok(());
    }
    let may = ["patch", "update"].into_iter().any(|verb| {
        let action = Action::Resource {
            verb,
            group: "portolan.dev",
            resource: "addresspools",
            subresource: "status",
            name: "",
        };
        let attributes = Attributes::new(requester, "", action);
        matches!(admission.authorizer.decide(&attributes), Verdict::Allowed(_))
    });
    if may {
        return Ok(());
    }
    let why = format!(
        "user {:?} may not record assigned addresses (condition {CONDITION}): that takes the right to update \
         addresspools/status",
        requester.user
    );
    Err(Failure::forbidden(
        attempt.target.kind,
        attempt.target.name(),
        &why,
    ))
}

/// The addresses that are recorded as assigned, without the states of their ports; `None` if none are.
fn assigned(service: &Value) -> Option<Vec<Value>> {
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
