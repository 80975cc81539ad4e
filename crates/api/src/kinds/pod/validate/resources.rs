//! Validation of the resources of containers and of whole Pods (upstream's `ValidateContainerResourceRequirements` and
//! `validatePodResources`).

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::machinery::decode::quantity_in_thousandths;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::metadata::push_faults;
use crate::machinery::names;
use crate::machinery::resource_amount::{self, is_extended, is_native};
use crate::machinery::tree::{child, entries, items, text};

const HUGE_PAGES: &str = "hugepages-";
/// Resources of containers without a domain, besides huge pages.
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Resources without a domain, besides those of containers and huge pages.
const STANDARD: [&str; 17] = [
    "configmaps",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];
/// Validates the resources of a container. `claims` holds the names of the resource claims of the Pod.
pub(super) fn validate(errors: &mut FieldErrors, resources: &Value, claims: &HashSet<&str>, path: &Path) {
    let (limits_at, requests_at) = (path.child("limits"), path.child("requests"));
    let limits = child(resources, "limits");
    for (name, amount) in entries(resources, "limits") {
        validate_entry(errors, name, amount, &limits_at.key(name));
    }
    for (name, amount) in entries(resources, "requests") {
        validate_entry(errors, name, amount, &requests_at.key(name));
        match limits.get(name).and_then(Value::as_str) {
            Some(limit) => validate_bound(errors, name, amount, limit, &requests_at),
            None if !is_overcommittable(name) => {
                let detail = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(&limits_at, detail));
            }
            None => {}
        }
    }
    let names = || entries(resources, "limits").chain(entries(resources, "requests"));
    let has_huge_pages = names().any(|(name, _)| name.starts_with(HUGE_PAGES));
    if has_huge_pages && !names().any(|(name, _)| matches!(name, "cpu" | "memory")) {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
    validate_claims(errors, resources, claims, &path.child("claims"));
}

/// Validates the names of the resources of a whole Pod.
pub(super) fn validate_whole_pod(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    let (resources, path) = (child(spec, "resources"), path.child("resources"));
    for list in ["limits", "requests"] {
        for (name, _) in entries(resources, list) {
            if !matches!(name, "cpu" | "memory") && !name.starts_with(HUGE_PAGES) {
                let path = path.child(list).key(name);
                let supported = ["cpu", HUGE_PAGES, "memory"];
                errors.push(FieldError::not_supported(&path, name, &supported));
            }
        }
    }
}

/// Validates the overhead of a Pod whose spec is at `path`. As upstream, it counts as the limits of a container.
pub(super) fn validate_overhead(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    let resources = json!({"limits": child(spec, "overhead")});
    validate(errors, &resources, &HashSet::new(), &path.child("overhead"));
}

fn validate_entry(errors: &mut FieldErrors, name: &str, amount: &str, path: &Path) {
    validate_name(errors, name, path);
    resource_amount::validate(errors, path, name, amount);
    if let Some(size) = name.strip_prefix(HUGE_PAGES) {
        let [size, thousandths] =
            [size, amount].map(|text| quantity_in_thousandths(text).unwrap_or_default());
        if size <= 0 || size % 1000 != 0 || thousandths % size != 0 {
            let fault = format!("{amount} is not positive integer multiple of {name}");
            errors.push(FieldError::invalid(path, amount, fault));
        }
    }
}

fn validate_name(errors: &mut FieldErrors, name: &str, path: &Path) {
    let faults = names::qualified_name(name);
    let is_qualified = faults.is_empty();
    push_faults(errors, path, name, faults);
    let is_of_containers = OF_CONTAINERS.contains(&name) || name.starts_with(HUGE_PAGES);
    let fault = if name.contains('/') {
        if is_native(name) || is_extended(name) {
            return;
        }
        "doesn't follow extended resource name standard"
    } else {
        let is_standard =
            is_of_containers || STANDARD.contains(&name) || name.starts_with("requests.hugepages-");
        if is_qualified && !is_standard {
            let fault = "must be a standard resource type or fully qualified";
            errors.push(FieldError::invalid(path, name, fault));
        }
        if is_of_containers {
            return;
        }
        "must be a standard resource for containers"
    };
    errors.push(FieldError::invalid(path, name, fault));
}

fn validate_bound(errors: &mut FieldErrors, name: &str, request: &str, limit: &str, path: &Path) {
    let (amount, bound) = (
        quantity_in_thousandths(request).unwrap_or_default(),
        quantity_in_thousandths(limit).unwrap_or_default(),
    );
    let relation = if amount != bound && !is_overcommittable(name) {
        "equal to"
    } else if amount > bound {
        "less than or equal to"
    } else {
        return;
    };
    let fault = format!("must be {relation} {name} limit of {limit}");
    errors.push(FieldError::invalid(path, request, fault));
}

fn validate_claims(errors: &mut FieldErrors, resources: &Value, claims: &HashSet<&str>, path: &Path) {
    let mut seen = HashSet::new();
    for (index, claim) in items(resources, "claims").iter().enumerate() {
        let (name, path) = (text(claim, "name"), path.index(index));
        if name.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        if !seen.insert((name, text(claim, "request"))) {
            errors.push(FieldError::duplicate(&path, name));
        }
        if !claims.contains(name) {
            let mut error = FieldError::not_found(&path, name);
            error.message += ": must be one of the names in pod.spec.resourceClaims";
            if claims.is_empty() {
                error.message += " which is empty";
            }
            errors.push(error);
        }
    }
}

/// Returns true if requests may be below limits (upstream's `IsOvercommitAllowed`).
fn is_overcommittable(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}
