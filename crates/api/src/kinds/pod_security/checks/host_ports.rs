//! No ports of the node are taken.

use std::collections::BTreeSet;

use super::wording::{containers, plural};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{items, number, text};

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    // Upstream sorts the numbers as texts.
    let mut ports = BTreeSet::new();
    let mut bad = Vec::new();
    for container in pod.containers() {
        let taken: Vec<String> = items(container, "ports")
            .iter()
            .map(|port| number(port, "hostPort"))
            .filter(|port| *port != 0)
            .map(|port| port.to_string())
            .collect();
        if !taken.is_empty() {
            bad.push(text(container, "name"));
            ports.extend(taken);
        }
    }
    if bad.is_empty() {
        return None;
    }
    let list: Vec<&str> = ports.iter().map(String::as_str).collect();
    let detail = format!(
        "{} {} {} {}",
        containers(&bad),
        plural("uses", "use", bad.len()),
        plural("hostPort", "hostPorts", list.len()),
        list.join(", ")
    );
    Violation::new("hostPort", detail)
}
