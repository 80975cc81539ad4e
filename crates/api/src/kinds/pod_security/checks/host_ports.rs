//! Check of the baseline level: the Pod does not use ports of the node.

use std::collections::BTreeSet;

use super::messages::{format_containers, plural};
use crate::kinds::pod_security::evaluation::Violation;
use crate::kinds::pod_security::pod::PodView;
use crate::machinery::tree::{items, number, text};

pub(super) fn check(pod: &PodView<'_>) -> Option<Violation> {
    // Upstream sorts the numbers as strings.
    let mut ports = BTreeSet::new();
    let mut violating = Vec::new();
    for container in pod.containers() {
        let host_ports: Vec<String> = items(container, "ports")
            .iter()
            .map(|port| number(port, "hostPort"))
            .filter(|port| *port != 0)
            .map(|port| port.to_string())
            .collect();
        if !host_ports.is_empty() {
            violating.push(text(container, "name"));
            ports.extend(host_ports);
        }
    }
    if violating.is_empty() {
        return None;
    }
    let list: Vec<&str> = ports.iter().map(String::as_str).collect();
    let detail = format!(
        "{} {} {} {}",
        format_containers(&violating),
        plural("uses", "use", violating.len()),
        plural("hostPort", "hostPorts", list.len()),
        list.join(", ")
    );
    Violation::new("hostPort", detail)
}
