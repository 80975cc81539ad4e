//! A plan as text and as JSON.

use std::fmt::Write;
use std::net::SocketAddr;

use plan::{EndpointSet, Frontend, FrontendKind, Origin, Outline, Plan, ServicePortPlan, Target};
use serde_json::{Map, Value, json};

/// Returns an object with an entry per Service port and IP family, such as `IPv4 ns/web:http TCP`, with the fields of
/// `conformance/endpoint-choice.json`. `cluster` and `local` are present if a frontend uses that policy. Addresses are
/// those of the Service's spec and status.
pub(super) fn value(plan: &Plan) -> Value {
    let entries = plan.outlines().into_iter().map(|outline| {
        let name = name(&outline.key);
        (name, entry(&outline))
    });
    Value::Object(entries.collect())
}

fn entry(outline: &Outline) -> Value {
    let mut entry = Map::new();
    let affinity = outline.affinity_seconds.map_or("None", |_| "ClientIP");
    entry.insert("affinity".to_owned(), json!(affinity));
    entry.insert(
        "affinitySeconds".to_owned(),
        json!(outline.affinity_seconds.unwrap_or(0)),
    );
    entry.insert("allReachable".to_owned(), addresses(&outline.reachable));
    if let Some(cluster) = &outline.cluster {
        entry.insert("cluster".to_owned(), addresses(cluster));
    }
    entry.insert("clusterIP".to_owned(), json!(outline.cluster_ip));
    entry.insert("externalIPs".to_owned(), json!(outline.external_ips));
    entry.insert("externalPolicyLocal".to_owned(), json!(outline.is_external_local));
    entry.insert("hasAnyEndpoints".to_owned(), json!(outline.has_any_endpoints));
    entry.insert(
        "healthCheckNodePort".to_owned(),
        json!(outline.health_check_node_port),
    );
    entry.insert("internalPolicyLocal".to_owned(), json!(outline.is_internal_local));
    entry.insert("loadBalancerIPs".to_owned(), json!(outline.load_balancer_ips));
    if let Some(local) = &outline.local {
        entry.insert("local".to_owned(), addresses(local));
    }
    entry.insert("nodePort".to_owned(), json!(outline.node_port));
    entry.insert("port".to_owned(), json!(outline.port));
    entry.insert("sourceRanges".to_owned(), json!(outline.source_ranges));
    entry.insert("usesCluster".to_owned(), json!(outline.cluster.is_some()));
    entry.insert("usesLocal".to_owned(), json!(outline.local.is_some()));
    Value::Object(entry)
}

/// Returns the addresses in the order of their texts, as in the recording.
fn addresses(addresses: &[SocketAddr]) -> Value {
    let mut texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    texts.sort_unstable();
    texts.into()
}

fn name(key: &plan::PortKey) -> String {
    let colon = if key.port.is_empty() { "" } else { ":" };
    format!(
        "{} {}{colon}{} {}",
        key.family,
        key.service,
        key.port,
        key.protocol.as_str()
    )
}

/// Renders each frontend with its decision per origin of connections.
pub(super) fn text(plan: &Plan) -> String {
    let mut text = String::new();
    for port in plan.ports().chain(plan.ranges()) {
        text.push_str(&name(&port.key));
        text.push('\n');
        for frontend in &port.frontends {
            write_frontend(&mut text, port, frontend);
        }
        if let Some(seconds) = port.affinity_seconds {
            append_line(&mut text, format_args!("  session affinity of {seconds} s"));
        }
    }
    if text.is_empty() {
        text.push_str("no Service with a cluster IP and ports\n");
    }
    text
}

fn write_frontend(text: &mut String, port: &ServicePortPlan, frontend: &Frontend) {
    let kind = match frontend.kind {
        FrontendKind::ClusterIp => "cluster IP",
        FrontendKind::ExternalIp => "external IP",
        FrontendKind::LoadBalancerIp => "load balancer IP",
        FrontendKind::NodePort => "node port",
    };
    match frontend.address {
        Some(address) if port.is_range => {
            let (first, last) = (frontend.port, frontend.last_port);
            append_line(text, format_args!("  {kind} {address}, ports {first}-{last}"));
        }
        Some(address) => {
            let at = SocketAddr::new(address, frontend.port);
            append_line(text, format_args!("  {kind} {at}"));
        }
        None => append_line(text, format_args!("  {kind} {}", frontend.port)),
    }
    if !frontend.source_ranges.is_empty() {
        let ranges: Vec<String> = frontend.source_ranges.iter().map(ToString::to_string).collect();
        append_line(text, format_args!("    only from {}", ranges.join(", ")));
    }
    let mut written: Vec<Target> = Vec::new();
    for origin in Origin::ALL {
        let target = frontend.target(origin);
        if written.contains(&target) {
            continue;
        }
        written.push(target);
        let same = Origin::ALL
            .into_iter()
            .filter(|other| frontend.target(*other) == target);
        let origins: Vec<&str> = same.map(origin_name).collect();
        let origins = if origins.len() == Origin::ALL.len() {
            "all clients".to_owned()
        } else {
            origins.join(", ")
        };
        append_line(text, format_args!("    {origins}: {}", decision(port, target)));
    }
}

fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Outside => "outside",
        Origin::Pod => "Pods",
        Origin::Node => "this node",
    }
}

fn decision(port: &ServicePortPlan, target: Target) -> String {
    let (set, masquerade) = match target {
        Target::Reject => return "rejected, no usable endpoint".to_owned(),
        Target::Drop => return "dropped, no usable endpoint on this node".to_owned(),
        Target::Balance { set, masquerade } => (set, masquerade),
    };
    let endpoints = port.backends(set).iter();
    let endpoints: Vec<String> = endpoints
        .map(|backend| {
            if port.is_range {
                format!("{}, same port", backend.address.ip())
            } else {
                backend.address.to_string()
            }
        })
        .collect();
    let location = match set {
        EndpointSet::Cluster => "",
        EndpointSet::Local => " on this node",
    };
    let masqueraded = if masquerade { ", masqueraded" } else { "" };
    format!("to {}{location}{masqueraded}", endpoints.join(" or "))
}

fn append_line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    text.write_fmt(arguments).unwrap_or_default();
    text.push('\n');
}
