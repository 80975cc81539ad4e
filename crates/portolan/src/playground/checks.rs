//! One check for every example: does it do what it says?

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use serde_json::Value;
use testbed::Cluster;

use super::components::{Components, ask_echo};
use super::lookup::{RecordType, lookup};
use super::manifests::balanced_addresses;
use crate::commands::Failure;

/// A check: which example, and what is seen when it works.
pub struct Check {
    /// The example's file.
    pub example: &'static str,
    /// Looks once; the text says what was seen, the error what is missing.
    pub run: fn(&Cluster, &Components) -> Result<String, Failure>,
}

/// All checks, in the order of the examples.
pub fn all() -> Vec<Check> {
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

/// Connections that are made to see all endpoints of a Service: with three of them, one is missed in
/// 40 tries about once in ten million runs.
const TRIES: usize = 40;

fn my_service(cluster: &Cluster, _: &Components) -> Result<String, Failure> {
    let node = first_node(cluster)?;
    let ip = one(lookup(
        cluster,
        &node,
        "my-service.default.svc.cluster.local",
        RecordType::A,
    )?)?;
    let seen = seen(cluster, &node, (ip, 80).into(), TRIES)?;
    want(&seen, &["my-app-1", "my-app-2", "my-app-3"])?;
    Ok(format!(
        "my-service:80 is {ip} by DNS, answered by {}",
        words(&seen)
    ))
}

fn named_port(cluster: &Cluster, _: &Components) -> Result<String, Failure> {
    let node = first_node(cluster)?;
    let ip = one(lookup(
        cluster,
        &node,
        "nginx-service.default.svc.cluster.local",
        RecordType::A,
    )?)?;
    let seen = seen(cluster, &node, (ip, 80).into(), TRIES)?;
    want(&seen, &["nginx", "nginx-next"])?;
    Ok(format!(
        "ports 80 and 8080 behind one name, answered by {}",
        words(&seen)
    ))
}

fn two_ports(cluster: &Cluster, _: &Components) -> Result<String, Failure> {
    let node = first_node(cluster)?;
    let ip = one(lookup(
        cluster,
        &node,
        "two-ports.default.svc.cluster.local",
        RecordType::A,
    )?)?;
    for port in [80, 443] {
        want(&seen(cluster, &node, (ip, port).into(), 1)?, &["two-ports-1"])?;
    }
    Ok("both ports answer".to_owned())
}

fn without_selector(cluster: &Cluster, _: &Components) -> Result<String, Failure> {
    let node = first_node(cluster)?;
    let ip = one(lookup(
        cluster,
        &node,
        "by-hand.default.svc.cluster.local",
        RecordType::A,
    )?)?;
    let seen = seen(cluster, &node, (ip, 80).into(), 1)?;
    want(&seen, &["outside"])?;
    Ok("the address in the slice written by hand answers".to_owned())
}

fn node_port(cluster: &Cluster, _: &Components) -> Result<String, Failure> {
    let mut nodes = Vec::new();
    for node in &cluster.topology.nodes {
        let address = SocketAddr::from((node.member.address.ipv4, 30007));
        want(
            &seen(cluster, "outside", address, TRIES)?,
            &["my-app-1", "my-app-2", "my-app-3"],
        )?;
        nodes.push(address.to_string());
    }
    Ok(format!("from outside by {}", nodes.join(" and ")))
}

fn external_name(cluster: &Cluster, _: &Components) -> Result<String, Failure> {
    let node = first_node(cluster)?;
    let names = lookup(
        cluster,
        &node,
        "elsewhere.default.svc.cluster.local",
        RecordType::Cname,
    )?;
    if names != ["my.database.example.com"] {
        return Err(format!("DNS answers {names:?}").into());
    }
    Ok("DNS answers with a CNAME to my.database.example.com".to_owned())
}

fn headless(cluster: &Cluster, _: &Components) -> Result<String, Failure> {
    let node = first_node(cluster)?;
    let service = "headless.default.svc.cluster.local";
    let addresses = lookup(cluster, &node, service, RecordType::A)?;
    if addresses.len() != 2 {
        return Err(format!("DNS answers {addresses:?}, not two addresses").into());
    }
    for pod in ["headless-0", "headless-1"] {
        let ip = one(lookup(
            cluster,
            &node,
            &format!("{pod}.{service}"),
            RecordType::A,
        )?)?;
        want(&seen(cluster, &node, (ip, 9376).into(), 1)?, &[pod])?;
    }
    Ok(format!(
        "DNS answers {}, and each Pod has its name",
        addresses.join(" and ")
    ))
}

fn session_affinity(cluster: &Cluster, _: &Components) -> Result<String, Failure> {
    let node = first_node(cluster)?;
    let ip = one(lookup(
        cluster,
        &node,
        "sticky.default.svc.cluster.local",
        RecordType::A,
    )?)?;
    let seen = seen(cluster, &node, (ip, 80).into(), TRIES)?;
    if seen.len() != 1 {
        return Err(format!("one client was answered by {}", words(&seen)).into());
    }
    Ok(format!(
        "{TRIES} connections of one client, all answered by {}",
        words(&seen)
    ))
}

fn external_ips(cluster: &Cluster, _: &Components) -> Result<String, Failure> {
    let to: SocketAddr = "198.51.100.32:80".parse()?;
    let seen = seen(cluster, "outside", to, TRIES)?;
    want(&seen, &["my-app-1", "my-app-2", "my-app-3"])?;
    Ok(format!("from outside by {to}"))
}

fn dual_stack(cluster: &Cluster, _: &Components) -> Result<String, Failure> {
    let node = first_node(cluster)?;
    let name = "dual-stack.default.svc.cluster.local";
    let mut addresses = Vec::new();
    for kind in [RecordType::A, RecordType::Aaaa] {
        let ip = one(lookup(cluster, &node, name, kind)?)?;
        want(
            &seen(cluster, &node, (ip, 80).into(), TRIES)?,
            &["my-app-1", "my-app-2", "my-app-3"],
        )?;
        addresses.push(ip.to_string());
    }
    Ok(format!("{} both answer", addresses.join(" and ")))
}

fn chosen_cluster_ip(cluster: &Cluster, _: &Components) -> Result<String, Failure> {
    let node = first_node(cluster)?;
    let ip = one(lookup(
        cluster,
        &node,
        "chosen.default.svc.cluster.local",
        RecordType::A,
    )?)?;
    if ip != "10.96.0.53".parse::<IpAddr>()? {
        return Err(format!("the cluster IP is {ip}").into());
    }
    want(
        &seen(cluster, &node, (ip, 80).into(), TRIES)?,
        &["my-app-1", "my-app-2", "my-app-3"],
    )?;
    Ok("10.96.0.53 answers".to_owned())
}

fn load_balancer(cluster: &Cluster, components: &Components) -> Result<String, Failure> {
    balanced(cluster, components, "load-balancer")
}

fn edge(cluster: &Cluster, components: &Components) -> Result<String, Failure> {
    balanced(cluster, components, "edge")
}

/// A Service is reached from outside by both of its addresses.
fn balanced(cluster: &Cluster, components: &Components, name: &str) -> Result<String, Failure> {
    let addresses = balanced_addresses(cluster, &components.kubeconfig(), name)?;
    if addresses.len() != 2 {
        return Err(format!("the Service has {addresses:?}, not an address of each family").into());
    }
    for address in &addresses {
        want(
            &seen(cluster, "outside", (*address, 80).into(), TRIES)?,
            &["my-app-1", "my-app-2", "my-app-3"],
        )?;
    }
    let addresses: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    Ok(format!("from outside by {}", addresses.join(" and ")))
}

fn first_node(cluster: &Cluster) -> Result<String, Failure> {
    let node = cluster
        .topology
        .nodes
        .first()
        .ok_or("the playground has no node")?;
    Ok(node.member.name.clone())
}

fn one(addresses: Vec<String>) -> Result<IpAddr, Failure> {
    match addresses.as_slice() {
        [address] => Ok(address.parse()?),
        _ => Err(format!("DNS answers {addresses:?}, not one address").into()),
    }
}

/// The Pods that answered `tries` connections.
fn seen(cluster: &Cluster, from: &str, to: SocketAddr, tries: usize) -> Result<BTreeSet<String>, Failure> {
    let mut pods = BTreeSet::new();
    for _ in 0..tries {
        let answer = ask_echo(cluster, from, to)?;
        let answer: Value =
            serde_json::from_str(&answer).map_err(|e| format!("{to} answered {answer:?}: {e}"))?;
        pods.insert(answer["pod"].as_str().unwrap_or_default().to_owned());
    }
    Ok(pods)
}

fn want(seen: &BTreeSet<String>, wanted: &[&str]) -> Result<(), Failure> {
    if seen.iter().map(String::as_str).eq(wanted.iter().copied()) {
        return Ok(());
    }
    Err(format!("answered by {}, wanted {}", words(seen), wanted.join(", ")).into())
}

fn words(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}
