//! Network namespaces of Pods on this host, found by the addresses of the Pods.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::IpAddr;

use explain::observation::PodName;
use netlink::route::{Connection, Link, NetworkNamespace, RouteError};

use super::cluster::PodAddresses;
use super::gap::ReadFailure;
use super::processes::Process;

/// Maximum number of network namespaces that are entered: four times the Pods of a node by default.
const NAMESPACES_MAX: usize = 512;

/// Network namespace of a Pod.
#[derive(Debug)]
pub(super) struct PodNamespace {
    /// Pod.
    pub pod: PodName,
    /// The namespace.
    pub namespace: NetworkNamespace,
    /// Positions of its processes.
    pub processes: Vec<usize>,
    /// Links in the namespace.
    pub links: Vec<Link>,
}

/// Network namespaces of Pods.
#[derive(Debug, Default)]
pub(super) struct PodNamespaces {
    /// Namespaces with a known Pod, by its name.
    pub found: Vec<PodNamespace>,
    /// True if there are more namespaces than were entered.
    pub is_truncated: bool,
}

/// Finds the namespaces of Pods. `own` is the namespace of the node.
///
/// # Errors
///
/// A [`ReadFailure`] if no namespace can be entered.
pub(super) fn find(
    processes: &[Process],
    own: u64,
    pods: &[PodAddresses],
    node_name: &str,
) -> Result<PodNamespaces, ReadFailure> {
    let mut by_namespace: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (position, process) in processes.iter().enumerate() {
        if let Some(namespace) = process.namespace.filter(|namespace| *namespace != own) {
            by_namespace.entry(namespace).or_default().push(position);
        }
    }
    if by_namespace.is_empty() && processes.iter().any(|process| process.namespace.is_none()) {
        return Err(ReadFailure::NotPermitted);
    }
    let mut result = PodNamespaces {
        is_truncated: by_namespace.len() > NAMESPACES_MAX,
        ..PodNamespaces::default()
    };
    let mut failure = None;
    for members in by_namespace.into_values().take(NAMESPACES_MAX) {
        let first = members.first().and_then(|position| processes.get(*position));
        let Some(first) = first else { continue };
        match enter(first) {
            Ok(EnteredNamespace {
                namespace,
                addresses,
                links,
            }) => {
                if let Some(pod) = pod_of(&addresses, pods, node_name) {
                    result.found.push(PodNamespace {
                        pod,
                        namespace,
                        processes: members,
                        links,
                    });
                }
            }
            // The process has just ended.
            Err(error) if is_gone(&error) => {}
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(failure) if result.found.is_empty() => Err(failure),
        _ => {
            result.found.sort_by(|a, b| a.pod.cmp(&b.pod));
            Ok(result)
        }
    }
}

/// Entered network namespace of a Pod, with its addresses and links.
struct EnteredNamespace {
    namespace: NetworkNamespace,
    addresses: Vec<IpAddr>,
    links: Vec<Link>,
}

fn enter(process: &Process) -> Result<EnteredNamespace, ReadFailure> {
    let namespace = NetworkNamespace::from(File::open(process.directory("ns/net"))?);
    let read = || -> Result<_, RouteError> {
        let mut connection = Connection::open_in(&namespace)?;
        Ok((connection.addresses()?, connection.links()?))
    };
    let (addresses, links) = read()?;
    let addresses = addresses.iter().map(|address| address.network.addr()).collect();
    Ok(EnteredNamespace {
        namespace,
        addresses,
        links,
    })
}

fn is_gone(failure: &ReadFailure) -> bool {
    // ENOENT and ESRCH: the process ended after it was listed.
    match failure {
        ReadFailure::NotPermitted => false,
        ReadFailure::Other(text) => text.contains("(os error 2)") || text.contains("(os error 3)"),
    }
}

/// Returns the Pod with one of these addresses. Pods of other nodes are not candidates.
fn pod_of(addresses: &[IpAddr], pods: &[PodAddresses], node_name: &str) -> Option<PodName> {
    let mut candidates = pods
        .iter()
        .filter(|pod| pod.node.is_empty() || pod.node == node_name);
    let found = candidates.find(|pod| pod.addresses.iter().any(|address| addresses.contains(address)))?;
    Some(found.pod.clone())
}

#[cfg(test)]
mod tests;
