//! Tables of Ingresses and IngressClasses.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{AGE, Layout, NAME, NONE, age, column, name, or};
use crate::kinds::ingress::is_default_class;
use crate::machinery::tree::{child, items, text, text_if_set};

/// Maximum number of hosts that are shown; the others are counted.
const HOSTS_SHOWN_MAX: usize = 3;

pub(super) static INGRESS: Layout = Layout {
    columns: &[
        NAME,
        column("Class", "Name of the IngressClass."),
        column("Hosts", "Hosts of the rules."),
        column("Address", "Addresses at which the Ingress is served."),
        column("Ports", "Ports at which the Ingress is served."),
        AGE,
    ],
    cells: |ingress, now| {
        let spec = child(ingress, "spec");
        let ports = if items(spec, "tls").is_empty() {
            "80"
        } else {
            "80, 443"
        };
        vec![
            name(ingress),
            or(text(spec, "ingressClassName"), NONE).into(),
            hosts(spec).into(),
            addresses(ingress).into(),
            ports.into(),
            age::of(ingress, now),
        ]
    },
};

pub(super) static CLASS: Layout = Layout {
    columns: &[
        NAME,
        column("Controller", "Controller that serves the class."),
        column("Parameters", "Object with parameters of the controller."),
        AGE,
    ],
    cells: |class, now| {
        let spec = child(class, "spec");
        let name = text(child(class, "metadata"), "name");
        let suffix = if is_default_class(class) { " (default)" } else { "" };
        vec![
            format!("{name}{suffix}").into(),
            text(spec, "controller").into(),
            parameters(child(spec, "parameters")).into(),
            age::of(class, now),
        ]
    },
};

fn hosts(spec: &Value) -> String {
    let rules = items(spec, "rules");
    let mut shown: Vec<&str> = Vec::with_capacity(HOSTS_SHOWN_MAX);
    let mut has_more = false;
    for rule in rules {
        // As upstream: rules without a host count if they follow.
        has_more |= shown.len() == HOSTS_SHOWN_MAX;
        let host = text(rule, "host");
        if !has_more && !host.is_empty() {
            shown.push(host);
        }
    }
    let shown = shown.join(",");
    if has_more {
        let more = rules.len().saturating_sub(HOSTS_SHOWN_MAX);
        return format!("{shown} + {more} more...");
    }
    or(&shown, "*").to_owned()
}

fn addresses(ingress: &Value) -> String {
    let balancer = child(child(ingress, "status"), "loadBalancer");
    let all: BTreeSet<&str> = items(balancer, "ingress")
        .iter()
        .map(|entry| or(text(entry, "ip"), text(entry, "hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    all.into_iter().collect::<Vec<_>>().join(",")
}

fn parameters(parameters: &Value) -> String {
    if parameters.is_null() {
        return NONE.to_owned();
    }
    let kind = text(parameters, "kind");
    let kind = match text_if_set(parameters, "apiGroup") {
        Some(group) if !group.is_empty() => format!("{kind}.{group}"),
        _ => kind.to_owned(),
    };
    format!("{kind}/{}", text(parameters, "name"))
}
