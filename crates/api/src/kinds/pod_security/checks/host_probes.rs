//! Probes and lifecycle hooks go to the Pod itself, not to hosts that the node reaches.

use std::collections::BTreeSet;

use serde_json::Value;

use super::wording::{containers, join_quoted, plural};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{child, text};

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const HOOKS: [&str; 2] = ["postStart", "preStop"];

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let mut hosts: BTreeSet<&str> = BTreeSet::new();
    let mut bad: BTreeSet<&str> = BTreeSet::new();
    for container in pod.containers() {
        let lifecycle = child(container, "lifecycle");
        let handlers = PROBES
            .iter()
            .map(|probe| child(container, probe))
            .chain(HOOKS.iter().map(|hook| child(lifecycle, hook)));
        for host in handlers.flat_map(hosts_of) {
            hosts.insert(host);
            bad.insert(text(container, "name"));
        }
    }
    if bad.is_empty() {
        return None;
    }
    let bad: Vec<&str> = bad.into_iter().collect();
    let detail = format!(
        "{} {} {} {}",
        containers(&bad),
        plural("uses", "use", bad.len()),
        plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len()),
        join_quoted(&hosts)
    );
    Violation::new("probe or lifecycle host", detail)
}

fn hosts_of(handler: &Value) -> impl Iterator<Item = &str> {
    ["httpGet", "tcpSocket"]
        .into_iter()
        .map(|action| text(child(handler, action), "host"))
        .filter(|host| !host.is_empty())
}
