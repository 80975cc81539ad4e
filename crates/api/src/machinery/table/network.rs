//! Rows of Services, their endpoints and their addresses.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{AGE, Layout, NAME, NONE, age, column, cut_list, name, or, wide};
use crate::machinery::tree::{child, entries, flag_if_set, items, number, text, texts};

pub(super) static SERVICE: Layout = Layout {
    columns: &[
        NAME,
        column("Type", "How the Service is reachable."),
        column("Cluster-IP", "The address inside of the cluster."),
        column("External-IP", "The addresses from outside."),
        column("Port(s)", "Ports, node ports and protocols."),
        AGE,
        wide("Selector", "The labels that choose the Service's Pods."),
    ],
    cells: |service, now| {
        let spec = child(service, "spec");
        vec![
            name(service),
            text(spec, "type").into(),
            or(
                texts(spec, "clusterIPs").first().copied().unwrap_or_default(),
                NONE,
            )
            .into(),
            external_ip(service).into(),
            ports(spec).into(),
            age::of(service, now),
            selector(spec).into(),
        ]
    },
};

pub(super) static ENDPOINTS: Layout = Layout {
    columns: &[NAME, column("Endpoints", "Addresses and ports."), AGE],
    cells: |endpoints, now| {
        let shown = if items(endpoints, "subsets").is_empty() {
            NONE.to_owned()
        } else {
            cut_list(items(endpoints, "subsets").iter().flat_map(subset))
        };
        vec![name(endpoints), shown.into(), age::of(endpoints, now)]
    },
};

pub(super) static ENDPOINT_SLICE: Layout = Layout {
    columns: &[
        NAME,
        column("AddressType", "Family of the addresses."),
        column("Ports", "Port numbers."),
        column("Endpoints", "Addresses."),
        AGE,
    ],
    cells: |slice, now| {
        let ports = cut_list(items(slice, "ports").iter().map(slice_port));
        let addresses = items(slice, "endpoints")
            .iter()
            .flat_map(|endpoint| texts(endpoint, "addresses"))
            .map(str::to_owned);
        vec![
            name(slice),
            text(slice, "addressType").into(),
            or(&ports, UNSET).into(),
            or(&cut_list(addresses), UNSET).into(),
            age::of(slice, now),
        ]
    },
};

pub(super) static IP_ADDRESS: Layout = Layout {
    columns: &[NAME, column("ParentRef", "The object that holds the address.")],
    cells: |address, _| {
        let parent = child(child(address, "spec"), "parentRef");
        let shown = if parent.is_null() {
            NONE.to_owned()
        } else {
            let group = match text(parent, "group") {
                "" => String::new(),
                group => format!(".{group}"),
            };
            let resource = format!("{}{group}", text(parent, "resource")).to_lowercase();
            match text(parent, "namespace") {
                "" => format!("{resource}/{}", text(parent, "name")),
                namespace => format!("{resource}/{namespace}/{}", text(parent, "name")),
            }
        };
        vec![name(address), shown.into()]
    },
};

pub(super) static SERVICE_CIDR: Layout = Layout {
    columns: &[
        NAME,
        column("CIDRs", "The ranges that addresses are taken from."),
        AGE,
    ],
    cells: |cidr, now| {
        let cidrs = texts(child(cidr, "spec"), "cidrs").join(",");
        vec![name(cidr), cidrs.into(), age::of(cidr, now)]
    },
};

pub(super) static ADDRESS_POOL: Layout = Layout {
    columns: &[
        NAME,
        column("Addresses", "The addresses that Services are given."),
        column(
            "Auto",
            "Whether Services get addresses of this pool without asking for it.",
        ),
        column(
            "Scope",
            "External, or Internal for Services that ask for an internal load balancer.",
        ),
        column("Assigned", "How many addresses are in use, of how many."),
        AGE,
        wide("Priority", "Pools of higher priority are used first."),
    ],
    cells: |pool, now| {
        let spec = child(pool, "spec");
        let addresses = cut_list(texts(spec, "addresses").into_iter().map(str::to_owned));
        let usage = items(child(pool, "status"), "usage").iter();
        let usage: Vec<String> = usage
            .map(|usage| format!("{}/{}", number(usage, "assigned"), number(usage, "total")))
            .collect();
        vec![
            name(pool),
            addresses.into(),
            flag_if_set(spec, "autoAssign").unwrap_or(true).to_string().into(),
            or(text(spec, "scope"), "External").into(),
            or(&usage.join(","), NONE).into(),
            age::of(pool, now),
            number(spec, "priority").to_string().into(),
        ]
    },
};

/// What an EndpointSlice shows without ports or addresses.
const UNSET: &str = "<unset>";

/// The addresses from outside (API-17).
fn external_ip(service: &Value) -> String {
    let spec = child(service, "spec");
    let external = texts(spec, "externalIPs").join(",");
    match text(spec, "type") {
        "ClusterIP" | "NodePort" => or(&external, NONE).to_owned(),
        "ExternalName" => text(spec, "externalName").to_owned(),
        "LoadBalancer" => {
            let balancer = child(child(service, "status"), "loadBalancer");
            // Sorted and without repetitions.
            let ingress: BTreeSet<&str> = items(balancer, "ingress")
                .iter()
                .map(|i| or(text(i, "ip"), text(i, "hostname")))
                .filter(|address| !address.is_empty())
                .collect();
            let mut all: Vec<&str> = ingress.into_iter().collect();
            all.extend(texts(spec, "externalIPs"));
            or(&all.join(","), "<pending>").to_owned()
        }
        _ => "<unknown>".to_owned(),
    }
}

/// Ports (API-18).
fn ports(spec: &Value) -> String {
    let ports: Vec<String> = items(spec, "ports")
        .iter()
        .map(|port| {
            let (number_shown, protocol) = (number(port, "port"), text(port, "protocol"));
            match number(port, "nodePort") {
                0 => format!("{number_shown}/{protocol}"),
                node_port => format!("{number_shown}:{node_port}/{protocol}"),
            }
        })
        .collect();
    or(&ports.join(","), NONE).to_owned()
}

fn selector(spec: &Value) -> String {
    let mut labels: Vec<String> = entries(spec, "selector")
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    labels.sort_unstable();
    or(&labels.join(","), NONE).to_owned()
}

/// Every address of a subset with every port, or alone if there are no ports.
fn subset(subset: &Value) -> Vec<String> {
    let addresses: Vec<&str> = items(subset, "addresses").iter().map(|a| text(a, "ip")).collect();
    if items(subset, "ports").is_empty() {
        return addresses.iter().map(|a| (*a).to_owned()).collect();
    }
    let with_port = |port: &Value| {
        let port = number(port, "port");
        addresses
            .iter()
            .map(move |a| {
                if a.contains(':') {
                    format!("[{a}]:{port}")
                } else {
                    format!("{a}:{port}")
                }
            })
            .collect::<Vec<_>>()
    };
    items(subset, "ports").iter().flat_map(with_port).collect()
}

fn slice_port(port: &Value) -> String {
    match (child(port, "port"), child(port, "name")) {
        (Value::Number(port), _) => port.to_string(),
        (_, Value::String(name)) => name.clone(),
        _ => "*".to_owned(),
    }
}
