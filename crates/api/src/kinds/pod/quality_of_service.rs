//! Quality of service of a Pod (upstream's `ComputePodQOS`).

use serde_json::Value;

use super::CONTAINER_LISTS;
use crate::machinery::tree::{child, items, text};

/// Returns `Guaranteed` if all containers have equal limits and requests, `BestEffort` if none has any. Resources of the
/// whole Pod take precedence. An amount of zero counts as none.
pub(super) fn quality_of_service(spec: &Value) -> &'static str {
    const COUNTED: [&str; 2] = ["cpu", "memory"];
    let pod_resources = child(spec, "resources");
    let has_pod_resources = ["limits", "requests"].iter().any(|kind| {
        child(pod_resources, kind)
            .as_object()
            .is_some_and(|amounts| !amounts.is_empty())
    });
    let resources: Vec<&Value> = if has_pod_resources {
        vec![pod_resources]
    } else {
        let containers = CONTAINER_LISTS.into_iter().flat_map(|list| items(spec, list));
        containers
            .map(|container| child(container, "resources"))
            .collect()
    };
    let amount = |resources: &Value, kind: &str, resource: &str| {
        let amount = text(child(resources, kind), resource).to_owned();
        (!amount.is_empty() && amount != "0").then_some(amount)
    };
    let is_named = |resources: &&Value| {
        COUNTED.iter().any(|resource| {
            ["limits", "requests"]
                .iter()
                .any(|kind| amount(resources, kind, resource).is_some())
        })
    };
    if !resources.iter().any(is_named) {
        return "BestEffort";
    }
    let is_guaranteed = |resources: &&Value| {
        COUNTED.iter().all(|resource| {
            let limit = amount(resources, "limits", resource);
            limit.is_some() && amount(resources, "requests", resource) == limit
        })
    };
    if resources.iter().all(is_guaranteed) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}
