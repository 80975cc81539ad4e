//! Tables of Ingresses and IngressClasses.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{AGE, Layout, NAME, NONE, age, column, name, or};
use crate::machinery::tree::{child, items, text, text_if_set};

/// Length to which the addresses of an Ingress are cut.
const ADDRESSES_SHOWN_CHARS: usize = 16;
/// Hosts that are shown; the others are counted.
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
        vec![
            name(class),
            text(spec, "controller").into(),
            parameters(child(spec, "parameters")).into(),
            age::of(class, now),
        ]
    },
};

fn hosts(spec: &Value) -> String {
    let rules = items(spec, "rules");
    if rules.is_empty() {
        return "*".to_owned();
    }
    let named: Vec<&str> = rules
        .iter()
        .map(|rule| text(rule, "host"))
        .filter(|host| !host.is_empty())
        .collect();
    let shown: Vec<&str> = named.iter().take(HOSTS_SHOWN_MAX).copied().collect();
    let shown = shown.join(",");
    match named.len().saturating_sub(HOSTS_SHOWN_MAX) {
        0 => or(&shown, "*").to_owned(),
        more => format!("{shown} + {more} more..."),
    }
}

fn addresses(ingress: &Value) -> String {
    let balancer = child(child(ingress, "status"), "loadBalancer");
    let all: BTreeSet<&str> = items(balancer, "ingress")
        .iter()
        .map(|entry| or(text(entry, "ip"), text(entry, "hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    let all = all.into_iter().collect::<Vec<_>>().join(",");
    match all.char_indices().nth(ADDRESSES_SHOWN_CHARS) {
        Some(_) => {
            let start: String = all.chars().take(ADDRESSES_SHOWN_CHARS - 3).collect();
            format!("{start}...")
        }
        None => all,
    }
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
