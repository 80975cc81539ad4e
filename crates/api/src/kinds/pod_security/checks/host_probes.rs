//! Check of the baseline level: probes and lifecycle hooks connect to the Pod only, not to other hosts.

use std::collections::BTreeSet;

use serde_json::Value;

use super::messages::{format_containers, join_quoted, plural};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{child, text};

const PROBES: [&str; 3] = ["livenessProbe", "readinessProbe", "startupProbe"];
const HOOKS: [&str; 2] = ["postStart", "preStop"];

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    let mut hosts: BTreeSet<&str> = BTreeSet::new();
    let mut violating: BTreeSet<&str> = BTreeSet::new();
    for container in pod.containers() {
        let lifecycle = child(container, "lifecycle");
        let handlers = PROBES
            .iter()
            .map(|probe| child(container, probe))
            .chain(HOOKS.iter().map(|hook| child(lifecycle, hook)));
        for host in handlers.flat_map(hosts_of) {
            hosts.insert(host);
            violating.insert(text(container, "name"));
        }
    }
    if violating.is_empty() {
        return None;
    }
    let violating: Vec<&str> = violating.into_iter().collect();
    let detail = format!(
        "{} {} {} {}",
        format_containers(&violating),
        plural("uses", "use", violating.len()),
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
