//! Observation of this node: all readers together.

use std::net::IpAddr;
use std::thread;

use explain::NodeObservation;
use explain::observation::{BgpSession, Certificate, PodName, ServiceVariable};
use jiff::Timestamp;
use netlink::nftables::Inventory;
use netlink::route::Connection;

use super::cluster::Cluster;
use super::conntrack::Destinations;
use super::gap::{Gaps, ReadFailure};
use super::iptables::IptablesState;
use super::listeners::Listeners;
use super::network::Network;
use super::pods::PodNamespaces;
use super::probes::Selection;
use super::processes::Process;
use super::proxies::RunningProxy;
use super::{
    bgp, certificates, cluster_domain, conntrack, drift, firewalls, iptables, listeners, network, pods,
    probes, processes, proxies, sysctls, tables, variables,
};
use crate::flags::values::hostname;

/// First process of a host. It is hidden if `/proc` shows only the processes of the user.
const FIRST_PROCESS: u32 = 1;

/// Request for an observation.
pub(crate) struct Request<'a> {
    /// Name of the Node.
    pub node_name: &'a str,
    /// Objects that select the flows, Pods and probes.
    pub cluster: &'a Cluster,
    /// Clock of this host minus the clock of the API server.
    pub clock_offset_seconds: Option<f64>,
    /// True if probes are sent.
    pub probes: bool,
    /// Pod on this node from which cluster IPs are probed; `None` for the first ones.
    pub source_pod: Option<PodName>,
    /// Reads the objects again; `None` if they do not come from an API server.
    pub read_again: Option<&'a (dyn Fn() -> Option<Cluster> + Sync)>,
}

/// Parts that processes show.
#[derive(Default)]
struct FromProcesses {
    processes: Vec<Process>,
    pods: PodNamespaces,
    has_pods: bool,
    listeners: Option<Listeners>,
    proxies: Option<Vec<RunningProxy>>,
    variables: Vec<ServiceVariable>,
    certificates: Vec<Certificate>,
    bgp_sessions: Option<Vec<BgpSession>>,
}

/// Observes this node. Parts that cannot be read are absent, with a reason in the gaps.
pub(crate) fn observe(request: &Request<'_>) -> (NodeObservation, Gaps) {
    let before = conntrack::read_statistics();
    let mut gaps = Gaps::default();
    let ((inventory, iptables), from_processes, mut network) = thread::scope(|scope| {
        let rules = scope.spawn(read_rules);
        let processes = scope.spawn(|| read_processes(request));
        let network = network::read(&mut gaps);
        let (rules, rules_gaps) = rules.join().unwrap_or_default();
        let (from_processes, processes_gaps) = processes.join().unwrap_or_default();
        gaps.merge(rules_gaps);
        gaps.merge(processes_gaps);
        (rules, from_processes, network)
    });
    network.set_pods(&from_processes.pods.found);
    let mut observation = NodeObservation::of_node(request.node_name);
    observation.observed_at = Some(Timestamp::now().to_string());
    observation.hostname = Some(hostname());
    observation.clock_offset_seconds = request.clock_offset_seconds;
    set_rules(&mut observation, inventory.as_ref(), iptables, &mut gaps);
    set_parameters(&mut observation, &network);
    let addresses = addresses(&network);
    let proxies = from_processes.proxies.as_deref().unwrap_or_default();
    set_drift(&mut observation, request, proxies, &addresses, &mut gaps);
    let destinations = Destinations::of(request.cluster, &addresses);
    observation.conntrack = conntrack::read(before, &destinations, &mut gaps);
    if request.probes {
        observation.probes = Some(send_probes(request, &from_processes, &network, &mut gaps));
    }
    set_processes(&mut observation, from_processes);
    observation.links = network.links;
    observation.routes = network.routes;
    observation.neighbours = network.neighbours;
    let truncated = gaps.truncated();
    observation.truncated = (!truncated.is_empty()).then_some(truncated);
    (observation, gaps)
}

type Rules = (Option<Inventory>, Option<IptablesState>);

fn read_rules() -> (Rules, Gaps) {
    let mut gaps = Gaps::default();
    let inventory = gaps.take("tables", tables::read());
    let iptables = iptables::read(inventory.as_ref(), &mut gaps);
    ((inventory, Some(iptables)), gaps)
}

fn set_rules(
    observation: &mut NodeObservation,
    inventory: Option<&Inventory>,
    iptables: Option<IptablesState>,
    gaps: &mut Gaps,
) {
    observation.tables = inventory.map(|inventory| {
        let (tables, is_truncated) = tables::observed_tables(inventory);
        if is_truncated {
            gaps.truncate("chains");
        }
        tables
    });
    let Some(iptables) = iptables else { return };
    observation.firewalls = inventory.map(|_| firewalls::find(inventory, &iptables));
    observation.iptables = Some(iptables.observed);
}

fn set_parameters(observation: &mut NodeObservation, network: &Network) {
    let links: Vec<String> = network
        .links
        .iter()
        .flatten()
        .map(|link| link.name.clone())
        .collect();
    let sysctls = sysctls::read(&links);
    observation.local_port_range = sysctls::local_port_range(&sysctls);
    observation.reserved_ports = sysctls::reserved_ports(&sysctls);
    observation.sysctls = Some(sysctls);
    observation.counters = sysctls::read_counters();
    observation.ipvs_services = sysctls::ipvs_services();
}

/// Returns the addresses of the node, for which its proxy serves node ports.
fn addresses(network: &Network) -> Vec<IpAddr> {
    let links = network.links.iter().flatten();
    let mut addresses: Vec<IpAddr> = links
        .flat_map(|link| link.addresses.iter().flatten())
        .map(ipnet::IpNet::addr)
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

fn read_processes(request: &Request<'_>) -> (FromProcesses, Gaps) {
    let mut gaps = Gaps::default();
    let mut found = FromProcesses::default();
    let read = processes::read_all().and_then(|all| Ok((all, processes::own_namespace()?)));
    let Some((all, own)) = gaps.take("processes", read) else {
        return (found, gaps);
    };
    found.processes = all;
    let pods = pods::find(&found.processes, own, &request.cluster.pods, request.node_name);
    if let Some(pods) = gaps.take("Pods", pods) {
        if pods.is_truncated {
            gaps.truncate("Pods");
        }
        found.pods = pods;
        found.has_pods = true;
    }
    let listeners = listeners::read(&found.processes, &found.pods.found);
    found.listeners = gaps.take("listeners", listeners);
    if found.listeners.as_ref().is_some_and(|found| found.is_truncated) {
        gaps.truncate("listeners");
    }
    let is_hidden = found.processes.iter().all(|process| process.id != FIRST_PROCESS);
    if is_hidden {
        gaps.take::<()>("processes", Err(ReadFailure::NotPermitted));
    } else {
        found.proxies = Some(proxies::read(&found.processes, own, &hostname()));
    }
    let (variables, has_more) = variables::read(&found.processes, &found.pods.found);
    if has_more {
        gaps.truncate("serviceVariables");
    }
    found.variables = variables;
    let (certificates, is_denied) = certificates::read(&found.processes, own);
    if is_denied {
        gaps.take::<()>("certificates", Err(ReadFailure::NotPermitted));
    }
    found.certificates = certificates;
    found.bgp_sessions = gaps.take("BGP sessions", bgp::read(&found.processes));
    (found, gaps)
}

fn set_processes(observation: &mut NodeObservation, found: FromProcesses) {
    let proxies = found.proxies;
    observation.proxies = proxies.map(|proxies| proxies.into_iter().map(|proxy| proxy.observed).collect());
    if let Some(listeners) = found.listeners {
        observation.listeners = Some(listeners.listeners);
        observation.inspected_pods = found.has_pods.then_some(listeners.inspected_pods);
    }
    observation.service_variables = found.has_pods.then_some(found.variables);
    observation.certificates = Some(found.certificates);
    observation.bgp_sessions = found.bgp_sessions;
}

fn set_drift(
    observation: &mut NodeObservation,
    request: &Request<'_>,
    proxies: &[RunningProxy],
    addresses: &[IpAddr],
    gaps: &mut Gaps,
) {
    // Objects of a file can be older than the table.
    let (Some(read_again), true) = (request.read_again, request.cluster.has_services) else {
        return;
    };
    let Some(config) = drift::settings(proxies, &hostname()) else {
        return;
    };
    let drift = drift::read(&config, request.cluster, addresses, read_again);
    if let (Some(Some(drift)), Some(tables)) = (gaps.take("drift", drift), &mut observation.tables) {
        drift::set(tables, &drift);
    }
}

fn send_probes(
    request: &Request<'_>,
    found: &FromProcesses,
    network: &Network,
    gaps: &mut Gaps,
) -> Vec<explain::observation::Probe> {
    let mtu = |links: &[netlink::route::Link]| {
        let links = links.iter().filter(|link| !link.is_loopback && link.is_up);
        links.map(|link| link.mtu_bytes).max().unwrap_or(0)
    };
    let is_source = |pod: &PodName| request.source_pod.as_ref().is_none_or(|source| source == pod);
    let pods = found.pods.found.iter().filter(|pod| is_source(&pod.pod));
    let selection = Selection {
        cluster: request.cluster,
        node_name: request.node_name,
        cluster_domain: &cluster_domain::find(&found.processes, &found.pods.found),
        pods: pods.map(|pod| (pod.pod.clone(), mtu(&pod.links))).collect(),
        links: network.links.as_deref().unwrap_or_default(),
        ethernet: ethernet(),
    };
    let (probes, is_truncated) = probes::run(selection.jobs(), &found.pods.found);
    if is_truncated {
        gaps.truncate("probes");
    }
    probes
}

/// Returns the links with an Ethernet address.
fn ethernet() -> Vec<(String, netlink::route::LinkIndex, [u8; 6])> {
    let links = Connection::open().and_then(|mut connection| connection.links());
    let links = links.unwrap_or_default().into_iter();
    links
        .filter_map(|link| Some((link.name, link.index, link.ethernet?)))
        .collect()
}
