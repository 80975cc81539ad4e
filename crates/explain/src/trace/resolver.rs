//! Resolver of a client: its name servers and its search list (KDN-01 to KDN-04).

use serde::Serialize;

use crate::finding::ObjectName;
use crate::kind::Kind;
use crate::views::Pod;
use crate::world::World;

/// Dots from which a name is tried without search domains first: default of resolvers.
const NDOTS_DEFAULT: usize = 1;
/// Dots from which a name is tried without search domains first, in Pods with cluster DNS (KDN-01).
const NDOTS_CLUSTER_FIRST: usize = 5;
/// Limit of resolvers for `ndots`.
const NDOTS_MAX: usize = 15;
/// Maximum number of search domains of a Pod (KDN-04).
const SEARCHES_MAX: usize = 32;
/// Maximum number of characters of the search list, including blanks (KDN-04).
const SEARCH_CHARACTERS_MAX: usize = 2_048;
/// Maximum number of bytes of a name.
const NAME_BYTES_MAX: usize = 253;
/// Port of DNS.
const DNS_PORT: u16 = 53;
/// Address of NodeLocal DNSCache (DNS-30).
const NODE_LOCAL_ADDRESS: &str = "169.254.20.10";

/// Servers that answer a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NameServers {
    /// Cluster DNS.
    Cluster,
    /// Servers outside of the cluster, which have no names of Services.
    Outside,
}

/// Resolver of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolver {
    /// Servers that answer.
    pub name_servers: NameServers,
    /// Search list.
    pub searches: Vec<String>,
    /// Dots from which a name is tried without search domains first.
    pub ndots: usize,
    /// Reason for the servers and the search list.
    pub reason: String,
    /// Object that decided; absent for clients outside of the cluster.
    pub object: Option<ObjectName>,
    /// Field of that object.
    pub field: String,
}

impl Resolver {
    /// Returns the resolver of a Pod. `domain` is the domain of the cluster, and `host_searches` is the search list of
    /// the nodes.
    pub fn of_pod(world: &World, pod: Pod<'_>, domain: &str, host_searches: &[String]) -> Self {
        let policy = match pod.text("/spec/dnsPolicy") {
            "" => "ClusterFirst",
            policy => policy,
        };
        let is_on_host_network = pod.is_on_host_network();
        let mut field = "spec.dnsPolicy";
        let (mut name_servers, reason) = match policy {
            "None" => {
                field = "spec.dnsConfig.nameservers";
                own_servers(world, pod)
            }
            "Default" => (
                NameServers::Outside,
                "dnsPolicy Default: the Pod uses the resolvers of its node".to_owned(),
            ),
            "ClusterFirst" if is_on_host_network => (
                NameServers::Outside,
                "dnsPolicy ClusterFirst on the host network: the Pod uses the resolvers of its node"
                    .to_owned(),
            ),
            policy => (
                NameServers::Cluster,
                format!("dnsPolicy {policy}: the Pod uses cluster DNS"),
            ),
        };
        let is_cluster_first = name_servers == NameServers::Cluster && policy != "None";
        let mut searches: Vec<String> = Vec::new();
        if is_cluster_first {
            let namespace = &pod.namespace;
            searches.extend([
                format!("{namespace}.svc.{domain}"),
                format!("svc.{domain}"),
                domain.to_owned(),
            ]);
        }
        if policy != "None" {
            append_unique(&mut searches, host_searches.iter().map(String::as_str));
        }
        let own = pod.list("/spec/dnsConfig/searches").iter();
        append_unique(&mut searches, own.filter_map(|search| search.as_str()));
        fit_limits(&mut searches);
        if pod.list("/spec/dnsConfig/nameservers").is_empty() && policy == "None" {
            name_servers = NameServers::Outside;
        }
        let default = if is_cluster_first {
            NDOTS_CLUSTER_FIRST
        } else {
            NDOTS_DEFAULT
        };
        Self {
            name_servers,
            searches,
            ndots: own_ndots(pod).unwrap_or(default),
            reason,
            object: Some(pod.object_name()),
            field: field.to_owned(),
        }
    }

    /// Returns the resolver of a node, or of a host outside of the cluster.
    pub fn of_host(host_searches: &[String], node: Option<ObjectName>) -> Self {
        let mut searches = Vec::new();
        append_unique(&mut searches, host_searches.iter().map(String::as_str));
        let reason = match node {
            Some(_) => "processes of a node use its resolvers",
            None => "the client is outside of the cluster",
        };
        Self {
            name_servers: NameServers::Outside,
            searches,
            ndots: NDOTS_DEFAULT,
            reason: reason.to_owned(),
            object: node,
            field: String::new(),
        }
    }

    /// Returns the names that the resolver tries for a name, in order and without their final dots.
    pub fn candidates(&self, name: &str) -> Vec<String> {
        if let Some(complete) = name.strip_suffix('.') {
            return vec![complete.to_owned()];
        }
        let mut names: Vec<String> = self
            .searches
            .iter()
            .map(|domain| format!("{name}.{domain}"))
            .filter(|name| name.len() <= NAME_BYTES_MAX)
            .collect();
        let has_enough_dots = name.matches('.').count() >= self.ndots;
        let position = if has_enough_dots { 0 } else { names.len() };
        names.insert(position, name.to_owned());
        names
    }
}

/// Servers of a Pod with policy None. They count as servers of the cluster if one of them is NodeLocal DNSCache, or a
/// Service with the port of DNS.
fn own_servers(world: &World, pod: Pod<'_>) -> (NameServers, String) {
    let servers: Vec<&str> = pod
        .list("/spec/dnsConfig/nameservers")
        .iter()
        .filter_map(|server| server.as_str())
        .collect();
    let is_of_cluster = |server: &&str| {
        let Ok(address) = server.parse() else {
            return false;
        };
        let mut services = world.services_at(address);
        **server == *NODE_LOCAL_ADDRESS
            || services.any(|service| service.ports().iter().any(|port| port.number == DNS_PORT))
    };
    let list = servers.join(", ");
    if servers.first().is_some_and(is_of_cluster) {
        let reason = format!("dnsPolicy None with the name servers {list}: the first is cluster DNS");
        return (NameServers::Cluster, reason);
    }
    let reason = if servers.is_empty() {
        "dnsPolicy None without name servers".to_owned()
    } else {
        format!("dnsPolicy None with the name servers {list}: the first is not a DNS Service of the cluster")
    };
    (NameServers::Outside, reason)
}

/// Returns the value of the option `ndots` in `dnsConfig`; the last one counts.
fn own_ndots(pod: Pod<'_>) -> Option<usize> {
    let options = pod.list("/spec/dnsConfig/options").iter().rev();
    let mut values = options.filter(|option| option["name"] == "ndots");
    let value: usize = values.next()?["value"].as_str()?.parse().ok()?;
    Some(value.min(NDOTS_MAX))
}

/// Adds search domains without their final dots.
fn append_unique<'s>(list: &mut Vec<String>, more: impl Iterator<Item = &'s str>) {
    for domain in more {
        let domain = domain.trim_end_matches('.').to_ascii_lowercase();
        if !domain.is_empty() && !list.contains(&domain) {
            list.push(domain);
        }
    }
}

/// Removes search domains beyond the limits of resolvers (KDN-04).
fn fit_limits(searches: &mut Vec<String>) {
    searches.truncate(SEARCHES_MAX);
    let mut characters = 0;
    searches.retain(|domain| {
        characters += domain.len() + 1;
        characters <= SEARCH_CHARACTERS_MAX + 1
    });
}

/// Returns the address that a Pod has for a name in its `/etc/hosts` (`spec.hostAliases`), with the field.
pub(super) fn host_alias(pod: Pod<'_>, name: &str) -> Option<(std::net::IpAddr, String)> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let mut aliases = pod.list("/spec/hostAliases").iter().enumerate();
    aliases.find_map(|(index, alias)| {
        let mut names = alias["hostnames"].as_array().into_iter().flatten();
        let has_name = names.any(|own| own.as_str().is_some_and(|own| own.eq_ignore_ascii_case(name)));
        let address = alias["ip"].as_str()?.parse().ok()?;
        has_name.then(|| (address, format!("spec.hostAliases[{index}]")))
    })
}

/// Returns the Pod that a client names.
pub(super) fn pod_of<'w>(world: &'w World, namespace: &str, name: &str) -> Option<Pod<'w>> {
    world.object(Kind::Pod, namespace, name).map(Pod)
}

#[cfg(test)]
mod tests;
