//! Check of the restricted level: all capabilities are dropped, and only `NET_BIND_SERVICE` is added.

use std::collections::BTreeSet;

use super::messages::{format_containers, join_quoted};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{child, texts};

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let without_drop =
        pod.containers_where(|context| !texts(child(context, "capabilities"), "drop").contains(&"ALL"));
    let mut forbidden: BTreeSet<&str> = BTreeSet::new();
    let with_forbidden = pod.containers_where(|context| {
        let added = texts(child(context, "capabilities"), "add");
        let added: Vec<&str> = added
            .into_iter()
            .filter(|name| *name != "NET_BIND_SERVICE")
            .collect();
        forbidden.extend(&added);
        !added.is_empty()
    });
    let mut details = Vec::new();
    if !without_drop.is_empty() {
        let containers = format_containers(&without_drop);
        details.push(format!(
            r#"{containers} must set securityContext.capabilities.drop=["ALL"]"#
        ));
    }
    if !with_forbidden.is_empty() {
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            format_containers(&with_forbidden),
            join_quoted(&forbidden)
        ));
    }
    if details.is_empty() {
        return None;
    }
    Violation::new("unrestricted capabilities", details.join("; "))
}

/// Check since 1.25: exempts Windows Pods, which have no capabilities.
pub(super) fn check_linux(pod: &PodView<'_>) -> Option<Violation> {
    if pod.is_windows() { None } else { check(pod) }
}
