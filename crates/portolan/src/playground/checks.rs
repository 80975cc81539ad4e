//! Checks of the examples: connections and DNS queries from nodes and from outside.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;
use testbed::Cluster;

use super::components::{Components, request_echo};
use super::lookup::{RecordType, lookup};
use super::manifests::load_balancer_addresses;
use crate::error::CommandError;

/// Check of an example.
pub(super) struct Check {
    /// File name of the example.
    pub example: &'static str,
    /// Checks once, and returns a description of the result.
    pub run: fn(&Cluster, &Components) -> Result<String, CommandError>,
}

/// Returns the checks of all examples but that of the router, in their order.
pub(super) fn all_checks() -> Vec<Check> {
    vec![
        Check {
            example: "01-my-service.yaml",
            run: my_service,
        },
        Check {
            example: "02-named-port.yaml",
            run: named_port,
        },
        Check {
            example: "03-two-ports.yaml",
            run: two_ports,
        },
        Check {
            example: "04-without-selector.yaml",
            run: without_selector,
        },
        Check {
            example: "05-node-port.yaml",
            run: node_port,
        },
        Check {
            example: "06-external-name.yaml",
            run: external_name,
        },
        Check {
            example: "07-headless.yaml",
            run: headless,
        },
        Check {
            example: "08-session-affinity.yaml",
            run: session_affinity,
        },
        Check {
            example: "09-external-ips.yaml",
            run: external_ips,
        },
        Check {
            example: "10-dual-stack.yaml",
            run: dual_stack,
        },
        Check {
            example: "11-chosen-cluster-ip.yaml",
            run: chosen_cluster_ip,
        },
        Check {
            example: "12-load-balancer.yaml",
            run: load_balancer,
        },
        Check {
            example: "13-edge.yaml",
            run: edge,
        },
    ]
}

/// Returns the check of the example with a router outside.
pub(super) fn router() -> Check {
    Check {
        example: "14-bgp.yaml",
        run: bgp,
    }
}

/// Connections that reach all endpoints of a Service. With three endpoints, one is missed about once in ten million
/// runs.
const CONNECTIONS: usize = 40;

fn my_service(cluster: &Cluster, _: &Components) -> Result<String, CommandError> {
    let node = first_node(cluster)?;
    let ip = single_address(lookup(
        cluster,
        &node,
        "my-service.default.svc.cluster.local",
        RecordType::A,
    )?)?;
    let pods = responders(cluster, &node, (ip, 80).into(), CONNECTIONS)?;
    expect_endpoints(&pods, &["my-app-1", "my-app-2", "my-app-3"])?;
    Ok(format!(
        "my-service:80 resolves to {ip}, endpoints {}",
        join_with_commas(&pods)
    ))
}

fn named_port(cluster: &Cluster, _: &Components) -> Result<String, CommandError> {
    let node = first_node(cluster)?;
    let ip = single_address(lookup(
        cluster,
        &node,
        "nginx-service.default.svc.cluster.local",
        RecordType::A,
    )?)?;
    let pods = responders(cluster, &node, (ip, 80).into(), CONNECTIONS)?;
    expect_endpoints(&pods, &["nginx", "nginx-next"])?;
    Ok(format!(
        "one port name for 80 and 8080, endpoints {}",
        join_with_commas(&pods)
    ))
}

fn two_ports(cluster: &Cluster, _: &Components) -> Result<String, CommandError> {
    let node = first_node(cluster)?;
    let ip = single_address(lookup(
        cluster,
        &node,
        "two-ports.default.svc.cluster.local",
        RecordType::A,
    )?)?;
    for port in [80, 443] {
        expect_endpoints(
            &responders(cluster, &node, (ip, port).into(), 1)?,
            &["two-ports-1"],
        )?;
    }
    Ok("both ports respond".to_owned())
}

fn without_selector(cluster: &Cluster, _: &Components) -> Result<String, CommandError> {
    let node = first_node(cluster)?;
    let ip = single_address(lookup(
        cluster,
        &node,
        "by-hand.default.svc.cluster.local",
        RecordType::A,
    )?)?;
    let pods = responders(cluster, &node, (ip, 80).into(), 1)?;
    expect_endpoints(&pods, &["outside"])?;
    Ok("the address in the manual EndpointSlice responds".to_owned())
}

fn node_port(cluster: &Cluster, _: &Components) -> Result<String, CommandError> {
    let mut nodes = Vec::new();
    for node in &cluster.topology.nodes {
        let address = SocketAddr::from((node.member.address.ipv4, 30007));
        expect_endpoints(
            &responders(cluster, "outside", address, CONNECTIONS)?,
            &["my-app-1", "my-app-2", "my-app-3"],
        )?;
        nodes.push(address.to_string());
    }
    Ok(format!("reachable from outside at {}", nodes.join(" and ")))
}

fn external_name(cluster: &Cluster, _: &Components) -> Result<String, CommandError> {
    let node = first_node(cluster)?;
    let names = lookup(
        cluster,
        &node,
        "elsewhere.default.svc.cluster.local",
        RecordType::Cname,
    )?;
    if names != ["my.database.example.com"] {
        return Err(format!("expected one CNAME record, found {names:?}").into());
    }
    Ok("resolves to the CNAME my.database.example.com".to_owned())
}

fn headless(cluster: &Cluster, _: &Components) -> Result<String, CommandError> {
    let node = first_node(cluster)?;
    let service = "headless.default.svc.cluster.local";
    let addresses = lookup(cluster, &node, service, RecordType::A)?;
    if addresses.len() != 2 {
        return Err(format!("expected two addresses, found {addresses:?}").into());
    }
    for pod in ["headless-0", "headless-1"] {
        let ip = single_address(lookup(
            cluster,
            &node,
            &format!("{pod}.{service}"),
            RecordType::A,
        )?)?;
        expect_endpoints(&responders(cluster, &node, (ip, 9376).into(), 1)?, &[pod])?;
    }
    Ok(format!(
        "resolves to {}, and each Pod has a name",
        addresses.join(" and ")
    ))
}

fn session_affinity(cluster: &Cluster, _: &Components) -> Result<String, CommandError> {
    let node = first_node(cluster)?;
    let ip = single_address(lookup(
        cluster,
        &node,
        "sticky.default.svc.cluster.local",
        RecordType::A,
    )?)?;
    let pods = responders(cluster, &node, (ip, 80).into(), CONNECTIONS)?;
    if pods.len() != 1 {
        return Err(format!(
            "expected one endpoint for one client, found {}",
            join_with_commas(&pods)
        )
        .into());
    }
    Ok(format!(
        "{CONNECTIONS} connections of one client, endpoint {}",
        join_with_commas(&pods)
    ))
}

fn external_ips(cluster: &Cluster, _: &Components) -> Result<String, CommandError> {
    let to: SocketAddr = "198.51.100.32:80".parse()?;
    let pods = responders(cluster, "outside", to, CONNECTIONS)?;
    expect_endpoints(&pods, &["my-app-1", "my-app-2", "my-app-3"])?;
    Ok(format!("reachable from outside at {to}"))
}

fn dual_stack(cluster: &Cluster, _: &Components) -> Result<String, CommandError> {
    let node = first_node(cluster)?;
    let name = "dual-stack.default.svc.cluster.local";
    let mut addresses = Vec::new();
    for kind in [RecordType::A, RecordType::Aaaa] {
        let ip = single_address(lookup(cluster, &node, name, kind)?)?;
        expect_endpoints(
            &responders(cluster, &node, (ip, 80).into(), CONNECTIONS)?,
            &["my-app-1", "my-app-2", "my-app-3"],
        )?;
        addresses.push(ip.to_string());
    }
    Ok(format!("{} respond", addresses.join(" and ")))
}

fn chosen_cluster_ip(cluster: &Cluster, _: &Components) -> Result<String, CommandError> {
    let node = first_node(cluster)?;
    let ip = single_address(lookup(
        cluster,
        &node,
        "chosen.default.svc.cluster.local",
        RecordType::A,
    )?)?;
    if ip != "10.96.0.53".parse::<IpAddr>()? {
        return Err(format!("expected cluster IP 10.96.0.53, found {ip}").into());
    }
    expect_endpoints(
        &responders(cluster, &node, (ip, 80).into(), CONNECTIONS)?,
        &["my-app-1", "my-app-2", "my-app-3"],
    )?;
    Ok("10.96.0.53 responds".to_owned())
}

fn load_balancer(cluster: &Cluster, components: &Components) -> Result<String, CommandError> {
    check_load_balancer(cluster, components, "load-balancer")
}

fn edge(cluster: &Cluster, components: &Components) -> Result<String, CommandError> {
    check_load_balancer(cluster, components, "edge")
}

/// Nothing but the routes of BGP leads to the addresses.
fn bgp(cluster: &Cluster, components: &Components) -> Result<String, CommandError> {
    check_load_balancer(cluster, components, "bgp")
}

/// Checks that a Service is reachable from outside at an address of each IP family.
fn check_load_balancer(
    cluster: &Cluster,
    components: &Components,
    name: &str,
) -> Result<String, CommandError> {
    let addresses = load_balancer_addresses(cluster, &components.kubeconfig(), name)?;
    if addresses.len() != 2 {
        return Err(format!("expected an address of each IP family, found {addresses:?}").into());
    }
    for address in &addresses {
        expect_endpoints(
            &responders(cluster, "outside", (*address, 80).into(), CONNECTIONS)?,
            &["my-app-1", "my-app-2", "my-app-3"],
        )?;
    }
    let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    Ok(format!("reachable from outside at {}", addresses.join(" and ")))
}

fn first_node(cluster: &Cluster) -> Result<String, CommandError> {
    let node = cluster
        .topology
        .nodes
        .first()
        .ok_or("the playground has no node")?;
    Ok(node.member.name.clone())
}

fn single_address(addresses: Vec<String>) -> Result<IpAddr, CommandError> {
    match addresses.as_slice() {
        [address] => Ok(address.parse()?),
        _ => Err(format!("expected one address, found {addresses:?}").into()),
    }
}

/// Returns the Pods that respond to a number of connections.
fn responders(
    cluster: &Cluster,
    from: &str,
    to: SocketAddr,
    connections: usize,
) -> Result<BTreeSet<String>, CommandError> {
    let mut pods = BTreeSet::new();
    for _ in 0..connections {
        let response = request_echo(cluster, from, to)?;
        let response: Value = serde_json::from_str(&response)
            .map_err(|error| format!("{to} responded with {response:?}: {error}"))?;
        pods.insert(response["pod"].as_str().unwrap_or_default().to_owned());
    }
    Ok(pods)
}

fn expect_endpoints(pods: &BTreeSet<String>, expected: &[&str]) -> Result<(), CommandError> {
    if pods.iter().map(String::as_str).eq(expected.iter().copied()) {
        return Ok(());
    }
    Err(format!(
        "expected endpoints {}, found {}",
        expected.join(", "),
        join_with_commas(pods)
    )
    .into())
}

fn join_with_commas(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}
