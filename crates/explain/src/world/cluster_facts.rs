//! Facts of the cluster that no single object states: the ranges of cluster IPs, the domain, the DNS servers.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use api::ip::parse_legacy_cidr;
use ipnet::IpNet;
use serde_json::Value;

use super::World;
use crate::kind::Kind;
use crate::subject::workload_of;
use crate::views::{Pod, list, text};

/// Namespace of the components of a cluster.
const SYSTEM_NAMESPACE: &str = "kube-system";
/// Flags with the ranges of cluster IPs, of the API server and of k3s.
const RANGE_FLAGS: [&str; 2] = ["--service-cluster-ip-range=", "--service-cidr="];
/// Flags with the domain of the cluster.
const DOMAIN_FLAGS: [&str; 1] = ["--cluster-domain="];
/// Flags with a name of the API server in the domain of the cluster.
const ISSUER_PREFIX: &str = "--service-account-issuer=https://kubernetes.default.svc.";
/// Domain of clusters, unless they are configured otherwise.
const DEFAULT_DOMAIN: &str = "cluster.local";
/// Port of DNS.
const DNS_PORT: u16 = 53;

/// Facts of a cluster.
#[derive(Debug, Default)]
pub(crate) struct ClusterFacts {
    stated_ranges: Vec<IpNet>,
    assumed_ranges: Vec<IpNet>,
    domain: String,
    dns_servers: Vec<IpAddr>,
}

impl ClusterFacts {
    /// Returns the facts of a world.
    pub(crate) fn of(world: &World) -> Self {
        let arguments = arguments(world);
        let stated_ranges = stated_ranges(world, &arguments);
        let assumed_ranges = if stated_ranges.is_empty() {
            world.networks.networks_of_services_only()
        } else {
            Vec::new()
        };
        Self {
            stated_ranges,
            assumed_ranges,
            domain: domain(world, &arguments),
            dns_servers: dns_servers(world),
        }
    }

    /// Returns the range of cluster IPs with an address. If the input does not state the ranges, the network of a
    /// cluster IP counts, except if nodes or Pods have addresses in it.
    pub(crate) fn service_range(&self, address: IpAddr) -> Option<IpNet> {
        let mut ranges = self.stated_ranges.iter().chain(&self.assumed_ranges);
        ranges.find(|range| range.contains(&address)).copied()
    }

    /// Returns the domain of the cluster: from the input, or else from the resolver configuration of Pods, or else the
    /// default.
    pub(crate) fn domain(&self) -> &str {
        &self.domain
    }

    /// Returns the cluster IPs of the DNS servers of the cluster.
    pub(crate) fn dns_servers(&self) -> &[IpAddr] {
        &self.dns_servers
    }
}

/// Returns the commands and arguments of the Pods of the control plane.
fn arguments(world: &World) -> Vec<&str> {
    let pods = world.in_namespace(Kind::Pod, SYSTEM_NAMESPACE).map(Pod);
    let containers = pods.flat_map(|pod| pod.0.list("/spec/containers"));
    let lists = containers.flat_map(|container| ["command", "args"].map(|field| list(container, field)));
    lists.flatten().filter_map(Value::as_str).collect()
}

fn stated_ranges(world: &World, arguments: &[&str]) -> Vec<IpNet> {
    let objects = world.all(Kind::ServiceCidr);
    let object_ranges = objects
        .flat_map(|range| range.list("/spec/cidrs"))
        .filter_map(Value::as_str);
    let flag_ranges = arguments.iter().flat_map(|argument| {
        let values = RANGE_FLAGS.iter().filter_map(|flag| argument.strip_prefix(flag));
        values.flat_map(|value| value.split(','))
    });
    let subnet = kubeadm_setting(world, "serviceSubnet").unwrap_or_default();
    let texts = object_ranges.chain(flag_ranges).chain(subnet.split(','));
    texts
        .filter_map(|text| Some(parse_legacy_cidr(text.trim())?.net))
        .collect()
}

fn domain(world: &World, arguments: &[&str]) -> String {
    let flag_domain = arguments.iter().find_map(|argument| {
        let mut values = DOMAIN_FLAGS.iter().filter_map(|flag| argument.strip_prefix(flag));
        values.next().or_else(|| argument.strip_prefix(ISSUER_PREFIX))
    });
    let stated = kubeadm_setting(world, "dnsDomain")
        .or_else(|| zone(world))
        .or(flag_domain);
    let stated = stated.map(|domain| domain.trim().trim_end_matches(['.', '/']).to_owned());
    stated.unwrap_or_else(|| used_domain(world))
}

/// Returns the domain of the names that the Pods of several workloads use, unless some use the default.
fn used_domain(world: &World) -> String {
    let mut users: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for (pod, reference) in world.references() {
        let rest = reference.host().trim_end_matches('.').split_once(".svc.");
        if let Some((_, domain)) = rest {
            users.entry(domain).or_default().insert(workload_of(pod));
        }
    }
    let is_common = |(_, users): &(&&str, &BTreeSet<_>)| users.len() > 1;
    let common = users
        .iter()
        .filter(is_common)
        .max_by_key(|(_, users)| users.len());
    match common {
        Some((domain, _)) if !users.contains_key(DEFAULT_DOMAIN) => (*domain).to_owned(),
        _ => DEFAULT_DOMAIN.to_owned(),
    }
}

/// Returns the value of a line of kubeadm's configuration.
fn kubeadm_setting<'w>(world: &'w World, name: &str) -> Option<&'w str> {
    let object = world.object(Kind::ConfigMap, SYSTEM_NAMESPACE, "kubeadm-config")?;
    let configuration = text(object.at("/data"), "ClusterConfiguration");
    let mut values = configuration
        .lines()
        .filter_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
    values.next().map(|value| value.trim().trim_matches('"'))
}

/// Returns the first zone of the plugin `kubernetes` in the configuration of CoreDNS.
fn zone(world: &World) -> Option<&str> {
    let object = world.object(Kind::ConfigMap, SYSTEM_NAMESPACE, "coredns")?;
    let mut plugins = text(object.at("/data"), "Corefile")
        .lines()
        .filter_map(|line| line.trim().strip_prefix("kubernetes "));
    plugins.next()?.split_whitespace().next()
}

fn dns_servers(world: &World) -> Vec<IpAddr> {
    let services = world.in_namespace(Kind::Service, SYSTEM_NAMESPACE);
    let services = services.map(crate::views::Service);
    let is_server = |service: &crate::views::Service<'_>| {
        let mut ports = service.ports().into_iter();
        ports.any(|port| port.number == DNS_PORT && port.protocol == "UDP")
    };
    services
        .filter(is_server)
        .flat_map(|service| service.cluster_ips())
        .collect()
}
