//! Tables of Services, endpoints, addresses and address ranges.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{AGE, Layout, NAME, NONE, age, column, name, or, truncate_list, wide};
use crate::machinery::tree::{child, entries, flag_if_set, items, number, text, texts};

pub(super) static SERVICE: Layout = Layout {
    columns: &[
        NAME,
        column("Type", "Service type."),
        column("Cluster-IP", "Address in the cluster."),
        column("External-IP", "Addresses outside of the cluster."),
        column("Port(s)", "Ports, node ports and protocols."),
        AGE,
        wide("Selector", "Label selector of the Service's Pods."),
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
            truncate_list(items(endpoints, "subsets").iter().flat_map(subset))
        };
        vec![name(endpoints), shown.into(), age::of(endpoints, now)]
    },
};

pub(super) static ENDPOINT_SLICE: Layout = Layout {
    columns: &[
        NAME,
        column("AddressType", "Address family."),
        column("Ports", "Port numbers."),
        column("Endpoints", "Addresses."),
        AGE,
    ],
    cells: |slice, now| {
        let ports = truncate_list(items(slice, "ports").iter().map(slice_port));
        let addresses = items(slice, "endpoints")
            .iter()
            .flat_map(|endpoint| texts(endpoint, "addresses"))
            .map(str::to_owned);
        vec![
            name(slice),
            text(slice, "addressType").into(),
            or(&ports, UNSET).into(),
            or(&truncate_list(addresses), UNSET).into(),
            age::of(slice, now),
        ]
    },
};

/// As upstream, a row has the age without a column for it; clients ignore the cell.
pub(super) static IP_ADDRESS: Layout = Layout {
    columns: &[NAME, column("ParentRef", "Object that owns the address.")],
    cells: |address, now| {
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
        vec![name(address), shown.into(), age::of(address, now)]
    },
};

pub(super) static SERVICE_CIDR: Layout = Layout {
    columns: &[NAME, column("CIDRs", "Address ranges."), AGE],
    cells: |cidr, now| {
        let cidrs = texts(child(cidr, "spec"), "cidrs").join(",");
        vec![name(cidr), cidrs.into(), age::of(cidr, now)]
    },
};

pub(super) static ADDRESS_POOL: Layout = Layout {
    columns: &[
        NAME,
        column("Addresses", "Addresses of the pool."),
        column("Auto", "True if addresses are assigned automatically."),
        column("Scope", "External, or Internal for internal load balancers."),
        column("Assigned", "Assigned addresses and total addresses."),
        AGE,
        wide("Priority", "Priority; pools with higher priority are used first."),
    ],
    cells: |pool, now| {
        let spec = child(pool, "spec");
        let addresses = truncate_list(texts(spec, "addresses").into_iter().map(str::to_owned));
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

/// Cell of an EndpointSlice without ports or addresses.
const UNSET: &str = "<unset>";

/// Returns the external addresses (API-17).
fn external_ip(service: &Value) -> String {
    let spec = child(service, "spec");
    let external = texts(spec, "externalIPs").join(",");
    match text(spec, "type") {
        "ClusterIP" | "NodePort" => or(&external, NONE).to_owned(),
        "ExternalName" => text(spec, "externalName").to_owned(),
        "LoadBalancer" => {
            let balancer = child(child(service, "status"), "loadBalancer");
            // Sorted, without duplicates.
            let ingress: BTreeSet<&str> = items(balancer, "ingress")
                .iter()
                .map(|entry| or(text(entry, "ip"), text(entry, "hostname")))
                .filter(|address| !address.is_empty())
                .collect();
            let mut all: Vec<&str> = ingress.into_iter().collect();
            all.extend(texts(spec, "externalIPs"));
            or(&all.join(","), "<pending>").to_owned()
        }
        _ => "<unknown>".to_owned(),
    }
}

/// Returns the ports (API-18).
fn ports(spec: &Value) -> String {
    let ports: Vec<String> = items(spec, "ports")
        .iter()
        .map(|port| {
            let (port_number, protocol) = (number(port, "port"), text(port, "protocol"));
            match number(port, "nodePort") {
                0 => format!("{port_number}/{protocol}"),
                node_port => format!("{port_number}:{node_port}/{protocol}"),
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

/// Returns all combinations of address and port of a subset, or the addresses if there are no ports.
fn subset(subset: &Value) -> Vec<String> {
    let addresses: Vec<&str> = items(subset, "addresses")
        .iter()
        .map(|address| text(address, "ip"))
        .collect();
    if items(subset, "ports").is_empty() {
        return addresses.iter().map(|address| (*address).to_owned()).collect();
    }
    let with_port = |port: &Value| {
        let port = number(port, "port");
        addresses
            .iter()
            .map(move |address| {
                if address.contains(':') {
                    format!("[{address}]:{port}")
                } else {
                    format!("{address}:{port}")
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
