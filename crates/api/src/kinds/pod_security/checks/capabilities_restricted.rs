//! All capabilities are dropped; only `NET_BIND_SERVICE` may be added.

use std::collections::BTreeSet;

use super::wording::{containers, join_quoted};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{child, texts};

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let keeping =
        pod.containers_where(|context| !texts(child(context, "capabilities"), "drop").contains(&"ALL"));
    let mut forbidden: BTreeSet<&str> = BTreeSet::new();
    let adding = pod.containers_where(|context| {
        let added = texts(child(context, "capabilities"), "add");
        let added: Vec<&str> = added
            .into_iter()
            .filter(|name| *name != "NET_BIND_SERVICE")
            .collect();
        forbidden.extend(&added);
        !added.is_empty()
    });
    let mut details = Vec::new();
    if !keeping.is_empty() {
        let containers = containers(&keeping);
        details.push(format!(
            r#"{containers} must set securityContext.capabilities.drop=["ALL"]"#
        ));
    }
    if !adding.is_empty() {
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&adding),
            join_quoted(&forbidden)
        ));
    }
    if details.is_empty() {
        return None;
    }
    Violation::new("unrestricted capabilities", details.join("; "))
}

/// The same; Pods of Windows have no capabilities.
pub(super) fn check_linux(pod: &PodView<'_>) -> Option<Violation> {
    match pod.is_windows() {
        true => None,
        false => check(pod),
    }
}
