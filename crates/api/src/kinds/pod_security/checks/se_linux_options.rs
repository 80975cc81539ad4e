//! Check of the baseline level: SELinux types are those of containers, and users and roles are not set.

use std::collections::BTreeSet;

use serde_json::Value;

use super::messages::{format_setters, join_quoted, plural};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{child, text};

const TYPES: [&str; 4] = ["", "container_t", "container_init_t", "container_kvm_t"];
const TYPES_1_31: [&str; 5] = [
    "",
    "container_t",
    "container_init_t",
    "container_kvm_t",
    "container_engine_t",
];

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    check_types(pod, &TYPES)
}

pub(super) fn check_1_31(pod: &PodView<'_>) -> Option<Violation> {
    check_types(pod, &TYPES_1_31)
}

fn check_types(pod: &PodView<'_>, allowed: &[&str]) -> Option<Violation> {
    let mut forbidden_types: BTreeSet<&str> = BTreeSet::new();
    let (mut sets_user, mut sets_role) = (false, false);
    let mut is_forbidden = |context| {
        let options: &Value = child(context, "seLinuxOptions");
        let has_forbidden_type = !allowed.contains(&text(options, "type"));
        if has_forbidden_type {
            forbidden_types.insert(text(options, "type"));
        }
        let (has_user, has_role) = (
            !text(options, "user").is_empty(),
            !text(options, "role").is_empty(),
        );
        sets_user |= has_user;
        sets_role |= has_role;
        has_forbidden_type || has_user || has_role
    };
    let is_pod_violating = is_forbidden(pod.security_context());
    let violating = pod.containers_where(is_forbidden);
    let setters = format_setters(is_pod_violating, &violating)?;
    let mut problems = Vec::new();
    if !forbidden_types.is_empty() {
        let types = plural("type", "types", forbidden_types.len());
        problems.push(format!("{types} {}", join_quoted(&forbidden_types)));
    }
    if sets_user {
        problems.push("user may not be set".to_owned());
    }
    if sets_role {
        problems.push("role may not be set".to_owned());
    }
    let detail = format!(
        "{setters} set forbidden securityContext.seLinuxOptions: {}",
        problems.join("; ")
    );
    Violation::new("seLinuxOptions", detail)
}
