//! Compact records of Services.

use std::collections::HashSet;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use api::edge_secret::{ASSIGNED_CONDITION, NODE_ADDRESSES_REASON};
use api::object::{Protocol, Service, ServiceSpec};
use ipnet::IpNet;

use crate::address::{parse_address, parse_range};
use crate::claims::FrontendKey;
use crate::fault::Fault;
use crate::interner::Interner;
use crate::limits::EXTERNAL_ELEMENTS_MAX;
use crate::port_ranges::{PORT_RANGES_ANNOTATION, PortRanges, RANGE_ELEMENTS_MAX};
use crate::settings::Settings;
use crate::types::{Family, FrontendKind, Scheduler};

/// Label of Services for another proxy (API-48).
const PROXY_NAME_LABEL: &str = "service.kubernetes.io/service-proxy-name";

/// Annotation with the name of a [`Scheduler`].
const SCHEDULER_ANNOTATION: &str = "service.portolan.dev/scheduler";
/// Annotation with the seconds after which TCP connections to endpoints that have left are reset.
const DRAIN_ANNOTATION: &str = "service.portolan.dev/drain-seconds";
/// Annotation that keeps UDP and SCTP flows to endpoints that are not ready: `true` or `false`.
const KEEP_UNREADY_FLOWS_ANNOTATION: &str = "service.portolan.dev/keep-unready-flows";
/// Annotation with the seconds after which TCP connections are reset.
const CONNECTION_AGE_ANNOTATION: &str = "service.portolan.dev/max-connection-age-seconds";
/// Annotation with the maximum share of TCP connections that are reset when endpoints are added, in percent.
const REBALANCE_ANNOTATION: &str = "service.portolan.dev/rebalance-percent";
/// Annotation that lets the endpoint's node serve connections to the load balancer IPs, whichever node receives the
/// packets: `true` or `false`.
pub const TWO_TIER_ANNOTATION: &str = "service.portolan.dev/two-tier-forwarding";
/// Annotation in which the assigner records that a pool of the Service's addresses requests two-tier forwarding.
/// [`TWO_TIER_ANNOTATION`] takes precedence.
pub(crate) const POOL_TWO_TIER_ANNOTATION: &str = "service.portolan.dev/two-tier-forwarding-from-pool";
/// Shortest maximum age of connections in seconds: a shorter one would reset connections faster than they are checked.
const CONNECTION_AGE_SECONDS_MIN: u32 = 10;

/// Returns true if labels assign a Service to another proxy.
fn has_other_proxy(labels: &api::object::Labels) -> bool {
    labels.contains_key(PROXY_NAME_LABEL)
}

/// Fields of a Service that affect decisions.
#[derive(Debug, PartialEq)]
pub(crate) struct ServiceRecord {
    /// Creation time as an ordered number. Of two Services that claim a frontend, the older one owns it.
    pub(crate) created: u64,
    /// UID, for Events about the Service.
    pub(crate) uid: Box<str>,
    pub(crate) ports: Box<[PortRecord]>,
    pub(crate) families: Box<[FamilyRecord]>,
    /// True if the load balancer IPs are addresses of nodes.
    pub(crate) is_at_nodes: bool,
    pub(crate) affinity_seconds: Option<u32>,
    pub(crate) scheduler: Scheduler,
    pub(crate) drain_seconds: Option<u32>,
    pub(crate) port_ranges: PortRanges,
    pub(crate) keeps_unready_flows: bool,
    pub(crate) connection_age_max_seconds: Option<u32>,
    pub(crate) rebalance_percent: Option<u8>,
    /// True if the Service requests two-tier forwarding.
    pub(crate) requests_two_tier: bool,
    /// True if the Service requests two-tier forwarding and this node supports it.
    pub(crate) is_two_tier: bool,
    pub(crate) is_external_local: bool,
    pub(crate) is_internal_local: bool,
    pub(crate) health_check_port: Option<u16>,
    pub(crate) faults: Box<[Fault]>,
}

/// A port of a Service.
#[derive(Debug, PartialEq)]
pub(crate) struct PortRecord {
    pub(crate) name: Arc<str>,
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
    /// Node port; 0 for no node port.
    pub(crate) node_port: u16,
}

/// Addresses of a Service in one family.
#[derive(Debug, PartialEq)]
pub(crate) struct FamilyRecord {
    pub(crate) family: Family,
    pub(crate) cluster_ip: IpAddr,
    pub(crate) external_ips: Box<[IpAddr]>,
    pub(crate) ingress_ips: Box<[IpAddr]>,
    /// Source ranges; empty for all sources.
    pub(crate) source_ranges: Box<[IpNet]>,
}

impl FamilyRecord {
    /// Returns the frontends of a port in this family. Load balancer IPs precede external IPs: if both are the same
    /// address, the frontend with source ranges has to win.
    pub(crate) fn frontends(&self, port: &PortRecord) -> impl Iterator<Item = (FrontendKind, FrontendKey)> {
        let (family, protocol, number) = (self.family, port.protocol, port.port);
        let key = move |address, port| FrontendKey {
            family,
            address,
            protocol,
            port,
        };
        let at = move |kind| move |address: &IpAddr| (kind, key(Some(*address), number));
        let node_port = (port.node_port != 0).then(|| (FrontendKind::NodePort, key(None, port.node_port)));
        std::iter::once((FrontendKind::ClusterIp, key(Some(self.cluster_ip), number)))
            .chain(self.ingress_ips.iter().map(at(FrontendKind::LoadBalancerIp)))
            .chain(self.external_ips.iter().map(at(FrontendKind::ExternalIp)))
            .chain(node_port)
    }

    /// Returns the addresses of clients' packets, without duplicates, in the order of [`FamilyRecord::frontends`].
    pub(crate) fn addresses(&self) -> Vec<(FrontendKind, IpAddr)> {
        let at = |kind| move |address: &IpAddr| (kind, *address);
        let all = std::iter::once((FrontendKind::ClusterIp, self.cluster_ip))
            .chain(self.ingress_ips.iter().map(at(FrontendKind::LoadBalancerIp)))
            .chain(self.external_ips.iter().map(at(FrontendKind::ExternalIp)));
        let mut seen: HashSet<IpAddr> = HashSet::new();
        all.filter(|(_, address)| seen.insert(*address)).collect()
    }

    /// Returns the addresses at which echo requests are decided: those of clients' packets, without external IPs.
    pub(crate) fn ping_addresses(&self) -> impl Iterator<Item = (FrontendKind, IpAddr)> {
        let all = self.addresses().into_iter();
        all.filter(|(kind, _)| *kind != FrontendKind::ExternalIp)
    }

    /// Returns true if a port has a frontend besides its cluster IP.
    pub(crate) fn is_externally_accessible(&self, port: &PortRecord) -> bool {
        port.node_port != 0 || !self.external_ips.is_empty() || !self.ingress_ips.is_empty()
    }
}

impl ServiceRecord {
    /// Reads a Service. Returns `None` if no proxy serves it (headless, no cluster IP, ExternalName; KPR-11), or if
    /// it is for another proxy (API-48).
    pub(crate) fn read(service: &Service, settings: &Settings, names: &mut Interner) -> Option<Self> {
        let spec = &service.spec;
        if spec.is_headless()
            || spec.cluster_ip.is_empty()
            || spec.kind == "ExternalName"
            || has_other_proxy(&service.metadata.labels)
        {
            return None;
        }
        let mut faults = Vec::new();
        let mut families = read_families(service, settings.ignores_external_ips, &mut faults);
        bound_external_elements(&mut families, spec.ports.len(), &mut faults);
        let port_ranges = read_port_ranges(service, &families, &mut faults);
        let requests_two_tier = requests_two_tier(service, &mut faults);
        let ports = spec.ports.iter().map(|port| PortRecord {
            name: names.intern(&port.name),
            protocol: port.protocol,
            port: port.port,
            node_port: port.node_port,
        });
        Some(Self {
            uid: service.metadata.uid.as_str().into(),
            created: creation_order(service.metadata.creation_timestamp.as_deref()),
            ports: ports.collect(),
            families,
            is_at_nodes: is_at_nodes(service),
            affinity_seconds: spec.affinity_timeout_seconds(),
            scheduler: read_annotation(service, SCHEDULER_ANNOTATION, Scheduler::named, &mut faults)
                .unwrap_or(settings.default_scheduler),
            drain_seconds: read_annotation(service, DRAIN_ANNOTATION, parse, &mut faults),
            port_ranges,
            keeps_unready_flows: read_annotation(service, KEEP_UNREADY_FLOWS_ANNOTATION, parse, &mut faults)
                .unwrap_or(false),
            connection_age_max_seconds: read_annotation(
                service,
                CONNECTION_AGE_ANNOTATION,
                |text| parse(text).filter(|seconds| *seconds >= CONNECTION_AGE_SECONDS_MIN),
                &mut faults,
            ),
            rebalance_percent: read_annotation(
                service,
                REBALANCE_ANNOTATION,
                |text| parse(text).filter(|percent| (1..=100).contains(percent)),
                &mut faults,
            ),
            requests_two_tier,
            is_two_tier: requests_two_tier && settings.supports_two_tier,
            is_external_local: is_external_local(spec),
            is_internal_local: spec.internal_traffic_policy.as_deref() == Some("Local"),
            health_check_port: health_check_port(spec, &mut faults),
            faults: faults.into(),
        })
    }
}

/// Reads a Portolan annotation. An invalid value is a fault and is ignored.
fn read_annotation<T>(
    service: &Service,
    name: &'static str,
    read: impl Fn(&str) -> Option<T>,
    faults: &mut Vec<Fault>,
) -> Option<T> {
    let text = service.metadata.annotations.get(name)?;
    let value = read(text.trim());
    if value.is_none() {
        let value = text.clone();
        faults.push(Fault::Annotation { name, value });
    }
    value
}

fn parse<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Returns true if an annotation of the Service or of its pool requests two-tier forwarding.
fn requests_two_tier(service: &Service, faults: &mut Vec<Fault>) -> bool {
    if service.spec.kind != "LoadBalancer" {
        return false;
    }
    read_annotation(service, TWO_TIER_ANNOTATION, parse, faults)
        .or_else(|| read_annotation(service, POOL_TWO_TIER_ANNOTATION, parse, faults))
        .unwrap_or(false)
}

/// Removes the load balancer IPs and external IPs if they have too many elements.
fn bound_external_elements(families: &mut [FamilyRecord], ports: usize, faults: &mut Vec<Fault>) {
    let by_family = families.iter().map(|family| {
        let at_ingress = family.ingress_ips.len() * family.source_ranges.len().max(1);
        at_ingress + family.external_ips.len()
    });
    let elements = by_family.sum::<usize>().saturating_mul(ports);
    if elements > EXTERNAL_ELEMENTS_MAX {
        faults.push(Fault::ExternalElements { elements });
        for family in families {
            family.ingress_ips = Box::default();
            family.external_ips = Box::default();
        }
    }
}

/// Reads the port ranges. Ranges with too many elements are a fault, and none of them is served: they claim no port
/// either.
fn read_port_ranges(service: &Service, families: &[FamilyRecord], faults: &mut Vec<Fault>) -> PortRanges {
    let ranges =
        read_annotation(service, PORT_RANGES_ANNOTATION, PortRanges::parse, faults).unwrap_or_default();
    let at = |(kind, _): (FrontendKind, IpAddr), family: &FamilyRecord| match kind {
        FrontendKind::LoadBalancerIp => family.source_ranges.len().max(1),
        _ => 1,
    };
    let by_family = families.iter().map(|family| {
        let addresses = family.addresses().into_iter();
        addresses.map(|address| at(address, family)).sum::<usize>()
    });
    let elements = by_family.sum::<usize>() * ranges.iter().count();
    if elements > RANGE_ELEMENTS_MAX {
        faults.push(Fault::RangeElements { elements });
        return PortRanges::default();
    }
    ranges
}

/// Returns the digits of an RFC 3339 time as one number, which orders like the time; 0 without a time.
fn creation_order(timestamp: Option<&str>) -> u64 {
    let digits = timestamp
        .unwrap_or_default()
        .bytes()
        .filter(u8::is_ascii_digit)
        .take(14);
    digits.fold(0, |order, digit| order * 10 + u64::from(digit - b'0'))
}

/// Returns true if the assigner recorded that the load balancer IPs are addresses of nodes.
fn is_at_nodes(service: &Service) -> bool {
    let mut conditions = service.status.conditions.iter();
    conditions
        .any(|condition| condition.kind == ASSIGNED_CONDITION && condition.reason == NODE_ADDRESSES_REASON)
}

fn is_external_local(spec: &ServiceSpec) -> bool {
    let is_accessible = match spec.kind.as_str() {
        "LoadBalancer" | "NodePort" => true,
        _ => !spec.external_ips.is_empty(),
    };
    is_accessible && spec.external_traffic_policy == "Local"
}

fn health_check_port(spec: &ServiceSpec, faults: &mut Vec<Fault>) -> Option<u16> {
    if spec.kind != "LoadBalancer" || spec.external_traffic_policy != "Local" {
        return None;
    }
    if spec.health_check_node_port == 0 {
        faults.push(Fault::NoHealthCheckPort);
        return None;
    }
    Some(spec.health_check_node_port)
}

/// Reads the frontends of each IP family, and adds the faults of their addresses.
fn read_families(
    service: &Service,
    ignores_external_ips: bool,
    faults: &mut Vec<Fault>,
) -> Box<[FamilyRecord]> {
    let spec = &service.spec;
    let external_ips = spec.external_ips.iter().filter(|_| !ignores_external_ips);
    let external_ips = read_all(external_ips, faults, |value| Fault::ExternalIp { value });
    let in_vip_mode = service.status.load_balancer.ingress.iter();
    let in_vip_mode = in_vip_mode.filter(|at| !at.ip.is_empty() && at.ip_mode.as_deref() != Some("Proxy"));
    let mut ingress_ips = read_all(in_vip_mode.map(|at| &at.ip), faults, |value| Fault::Ingress {
        value,
    });
    let source_ranges = read_source_ranges(spec, faults);
    if source_ranges.is_empty() && !spec.load_balancer_source_ranges.is_empty() {
        // An unreadable restriction must not admit all sources.
        ingress_ips.clear();
    }
    let families = [Family::V4, Family::V6].into_iter().filter_map(|family| {
        let text = cluster_ip_of(spec, family)?;
        let Some(cluster_ip) = parse_address(text) else {
            faults.push(Fault::ClusterIp {
                value: text.to_owned(),
            });
            return None;
        };
        let ips_of_family = |ips: &[IpAddr]| {
            ips.iter()
                .copied()
                .filter(|ip| Family::of(*ip) == family)
                .collect()
        };
        let mut ranges: Vec<IpNet> = source_ranges
            .iter()
            .copied()
            .filter(|range| Family::of(range.addr()) == family)
            .collect();
        if ranges.iter().any(|range| range.prefix_len() == 0) {
            ranges.clear(); // one range of all addresses admits all sources (KPR-17)
        }
        (Family::of(cluster_ip) == family).then(|| FamilyRecord {
            family,
            cluster_ip,
            external_ips: ips_of_family(&external_ips),
            ingress_ips: ips_of_family(&ingress_ips),
            source_ranges: ranges.into(),
        })
    });
    families.collect()
}

/// Returns the cluster IP of a family, by `ipFamilies`, or by the address itself in older objects.
fn cluster_ip_of(spec: &ServiceSpec, family: Family) -> Option<&str> {
    if spec.ip_families.is_empty() {
        let is_v6 = spec.cluster_ip.contains(':');
        return (is_v6 == (family == Family::V6)).then_some(spec.cluster_ip.as_str());
    }
    let index = spec.ip_families.iter().position(|of| of == family.name())?;
    spec.cluster_ips
        .get(index)
        .map(String::as_str)
        .filter(|ip| !ip.is_empty())
}

fn read_all<'a>(
    texts: impl IntoIterator<Item = &'a String>,
    faults: &mut Vec<Fault>,
    fault: impl Fn(String) -> Fault,
) -> Vec<IpAddr> {
    let mut read = Vec::new();
    for text in texts {
        match parse_address(text) {
            Some(address) => read.push(address),
            None => faults.push(fault(text.clone())),
        }
    }
    read
}

fn read_source_ranges(spec: &ServiceSpec, faults: &mut Vec<Fault>) -> Vec<IpNet> {
    let mut read = Vec::new();
    for text in &spec.load_balancer_source_ranges {
        match parse_range(text) {
            Some(range) => read.push(range),
            None => faults.push(Fault::SourceRange { value: text.clone() }),
        }
    }
    read
}

#[cfg(test)]
mod tests;
