//! Fields and resources of a Pod as values (upstream's `pkg/fieldpath`). Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::object::quantity::Quantity;
use crate::object::{Container, Pod, ResourceFieldRef, Resources};

use super::PodFacts;

/// Returns the value of a `resourceFieldRef`: `limits.cpu` in cores or `requests.memory` in bytes, divided by the
/// divisor and rounded up; `None` for an unknown container or resource.
///
/// A reference without a container is to `own`. A missing limit is the capacity of the node.
pub fn resource_field(
    reference: &ResourceFieldRef,
    pod: &Pod,
    own: Option<&Container>,
    facts: &PodFacts,
) -> Option<String> {
    let named = pod
        .spec
        .all_containers()
        .find(|container| container.name == reference.container_name);
    let container = if reference.container_name.is_empty() {
        own
    } else {
        named
    }?;
    let (kind, resource) = reference.resource.split_once('.')?;
    let Resources { limits, requests } = &container.resources;
    let capacity = match resource {
        "cpu" => Quantity::whole(facts.capacity.cpus),
        "memory" => Quantity::whole(facts.capacity.memory_bytes),
        _ => Quantity::default(),
    };
    let set = |amounts: &BTreeMap<String, String>| Quantity::parse(amounts.get(resource)?);
    let amount = match kind {
        "limits" => set(limits).unwrap_or(capacity),
        "requests" => set(requests).or_else(|| set(limits)).unwrap_or_default(),
        _ => return None,
    };
    let divisor = match reference.divisor.as_str() {
        "" | "0" => Quantity::whole(1),
        text => Quantity::parse(text)?,
    };
    amount.divided_by(divisor).map(|number| number.to_string())
}

/// Returns the value of a `fieldPath` that variables support; `None` for any other path.
pub fn field(path: &str, pod: &Pod, facts: &PodFacts) -> Option<String> {
    let first = |ips: &[IpAddr]| ips.first().map(ToString::to_string).unwrap_or_default();
    let joined = |ips: &[IpAddr]| {
        let texts: Vec<String> = ips.iter().map(ToString::to_string).collect();
        texts.join(",")
    };
    let subscript =
        |prefix: &str| -> Option<&str> { path.strip_prefix(prefix)?.strip_prefix("['")?.strip_suffix("']") };
    if let Some(label) = subscript("metadata.labels") {
        return Some(pod.metadata.labels.get(label).cloned().unwrap_or_default());
    }
    if let Some(annotation) = subscript("metadata.annotations") {
        let value = pod.metadata.annotations.get(annotation);
        return Some(value.cloned().unwrap_or_default());
    }
    Some(match path {
        "metadata.name" => pod.metadata.name.clone(),
        "metadata.namespace" => pod.metadata.namespace.clone(),
        "metadata.uid" => pod.metadata.uid.clone(),
        "spec.nodeName" => pod.spec.node_name.clone(),
        "spec.serviceAccountName" => pod.spec.service_account_name.clone(),
        "status.hostIP" => first(&facts.host_ips),
        "status.hostIPs" => joined(&facts.host_ips),
        "status.podIP" => first(&facts.pod_ips),
        "status.podIPs" => joined(&facts.pod_ips),
        _ => return None,
    })
}
