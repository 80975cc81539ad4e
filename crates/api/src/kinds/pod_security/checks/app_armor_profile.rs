//! Check of the baseline level: the default AppArmor profile is not disabled.

use std::collections::BTreeSet;

use super::messages::{format_containers, join_quoted, plural};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{child, entries, is_set, text};

const ANNOTATION_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let mut forbidden: BTreeSet<&str> = BTreeSet::new();
    let mut is_forbidden = |context| {
        let profile = child(context, "appArmorProfile");
        let kind = text(profile, "type");
        let is_forbidden =
            is_set(context, "appArmorProfile") && !matches!(kind, "RuntimeDefault" | "Localhost");
        if is_forbidden {
            forbidden.insert(kind);
        }
        is_forbidden
    };
    let mut setters = Vec::new();
    if is_forbidden(pod.security_context()) {
        setters.push("pod".to_owned());
    }
    let violating = pod.containers_where(is_forbidden);
    if !violating.is_empty() {
        setters.push(format_containers(&violating));
    }
    let mut annotations: Vec<String> = entries(pod.metadata, "annotations")
        .filter(|(key, value)| key.starts_with(ANNOTATION_PREFIX) && !is_allowed_annotation(value))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    if !annotations.is_empty() {
        annotations.sort();
        setters.push(plural("annotation", "annotations", annotations.len()).to_owned());
    }
    if setters.is_empty() {
        return None;
    }
    let mut values: Vec<String> = forbidden.into_iter().map(str::to_owned).collect();
    values.append(&mut annotations);
    let reason = plural(
        "forbidden AppArmor profile",
        "forbidden AppArmor profiles",
        values.len(),
    );
    let detail = format!(
        "{} must not set AppArmor profile type to {}",
        setters.join(" and "),
        join_quoted(&values)
    );
    Violation::new(reason, detail)
}

fn is_allowed_annotation(value: &str) -> bool {
    value.is_empty() || value == "runtime/default" || value.starts_with("localhost/")
}
