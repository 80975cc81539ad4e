//! What a configuration must be (KPC-08 to KPC-13), and what the node process is told.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use plan::PodDetection;
use proxy::{ConntrackSettings, NodePortSelection, PodSelection};

use super::Mode;
use super::configuration::{Configuration, Conntrack};
use super::duration::GoDuration;
use super::gates;
use crate::flags::{BadValue, at_most_one_a_family, host_name};

/// Scores of how a process ranks when memory runs out (KPC-10).
const OOM_SCORES: std::ops::RangeInclusive<i32> = -1000..=1000;
/// A mode of upstream's that another stands in for.
pub const IPVS: &str = "ipvs";
/// Bits of a packet's mark (KPC-10).
const MARK_BITS: std::ops::Range<i32> = 0..32;

/// Checks all of a configuration; the mode that it asks for, and what the node process is told. The error names
/// everything that is wrong.
pub fn check(configuration: &Configuration) -> Result<(Mode, proxy::Config), BadValue> {
    let mut wrong = Vec::new();
    check_numbers(configuration, &mut wrong);
    let mut keep = |what: &str, error: String| wrong.push(format!("{what}: {error}"));
    let bind_address = parse_ip(&configuration.bind_address)
        .map_err(|error| keep("bindAddress", error))
        .ok();
    let healthz = socket_address(&configuration.healthz_bind_address)
        .map_err(|error| keep("healthzBindAddress", error))
        .ok();
    let metrics = socket_address(&configuration.metrics_bind_address)
        .map_err(|error| keep("metricsBindAddress", error))
        .ok();
    let mode = mode(&configuration.mode)
        .map_err(|error| keep("mode", error))
        .ok();
    let pods = pods(configuration).map_err(|error| wrong.push(error)).ok();
    let node_ports = node_port_addresses(&configuration.node_port_addresses, mode)
        .map_err(|error| wrong.push(format!("nodePortAddresses: {error}")))
        .ok();
    let (Some(bind_address), Some(healthz), Some(metrics)) = (bind_address, healthz, metrics) else {
        return Err(BadValue(wrong.join("; ")));
    };
    let (Some(mode), Some(pods), Some(node_ports), true) = (mode, pods, node_ports, wrong.is_empty()) else {
        return Err(BadValue(wrong.join("; ")));
    };
    let config = proxy::Config {
        node_name: node_name(&configuration.hostname_override),
        pods,
        node_port_addresses: node_ports,
        masquerade_all: masquerade_all(configuration),
        bind_address,
        healthz_bind_address: healthz,
        metrics_bind_address: metrics,
        bind_address_hard_fail: configuration.bind_address_hard_fail,
        proxy_mode: mode.name().to_owned(),
        sync_period: match mode {
            Mode::Nftables | Mode::Userspace => configuration.nftables.sync_period.0,
            Mode::Iptables => configuration.iptables.sync_period.0,
        },
        localhost_node_ports: configuration.iptables.localhost_node_ports,
        conntrack: conntrack(&configuration.conntrack),
        oom_score_adj: Some(configuration.oom_score_adj),
        takes_over: true,
        allows_external_ips: gates::allows_external_ips(configuration),
        configuration: serde_json::to_value(configuration).unwrap_or_default(),
        ..periods(mode, configuration)
    };
    Ok((mode, config))
}

/// Whether everything that goes to cluster IPs is masqueraded: as the section of the mode says that the file names. Where it
/// names none, or one that there is not, the section that upstream would read may be either.
fn masquerade_all(configuration: &Configuration) -> bool {
    let (iptables, nftables) = (&configuration.iptables, &configuration.nftables);
    match Mode::named(&configuration.mode) {
        Some(Mode::Nftables) => nftables.masquerade_all,
        Some(Mode::Iptables) => iptables.masquerade_all,
        Some(Mode::Userspace) | None => iptables.masquerade_all || nftables.masquerade_all,
    }
}

/// What of a configuration that can be used is most likely not meant (KPC-14, KPC-15).
pub fn doubts(configuration: &Configuration, mode: Mode) -> Vec<String> {
    let mut doubts = Vec::new();
    let families = |texts: &[String]| {
        let nets: Vec<IpNet> = texts.iter().filter_map(|text| text.trim().parse().ok()).collect();
        let has = |is_v4| nets.iter().any(|net| net.addr().is_ipv4() == is_v4);
        (has(true), has(false))
    };
    let pods: Vec<String> = configuration.cluster_cidr.split(',').map(str::to_owned).collect();
    let node_ports = &configuration.node_port_addresses;
    if node_ports.is_empty() && mode == Mode::Iptables {
        doubts.push(
            "nodePortAddresses is not set: node ports answer on all of this node's addresses; consider \"primary\""
                .to_owned(),
        );
    }
    if let (true, false) | (false, true) = families(node_ports)
        && families(&pods) == (true, true)
    {
        doubts.push(format!(
            "nodePortAddresses has one family only, {}, but clusterCIDR has both: node ports of the other answer nowhere",
            node_ports.join(",")
        ));
    }
    let is_by_range = matches!(configuration.detect_local_mode.as_str(), "" | "ClusterCIDR");
    let bind_address = configuration.bind_address.parse::<IpAddr>().ok();
    if let Some(bind_address) = bind_address.filter(|ip| is_by_range && !ip.is_unspecified()) {
        let (has_v4, has_v6) = families(&pods);
        let has_own = if bind_address.is_ipv4() { has_v4 } else { has_v6 };
        if (has_v4 || has_v6) && !has_own {
            doubts.push(format!(
                "clusterCIDR has no range of the family of bindAddress, {bind_address}: who is no Pod is not known \
                 there, and is not masqueraded towards cluster IPs"
            ));
        }
    }
    doubts
}

/// How often rules are read back and how often they may change: changes cost next to nothing in nftables, where
/// what others do is told besides.
fn periods(mode: Mode, configuration: &Configuration) -> proxy::Config {
    let defaults = proxy::Config::default();
    match mode {
        Mode::Nftables | Mode::Userspace => defaults,
        Mode::Iptables => proxy::Config {
            repair_period: configuration.iptables.sync_period.0,
            min_sync_period: configuration.iptables.min_sync_period.0,
            ..defaults
        },
    }
}

/// The Node's name: as given, else this machine's, in lower case (KPF-09).
pub fn node_name(given: &str) -> String {
    match given.trim() {
        "" => host_name(),
        given => given.to_ascii_lowercase(),
    }
}

fn check_numbers(configuration: &Configuration, wrong: &mut Vec<String>) {
    let (iptables, nftables, ipvs) = (
        &configuration.iptables,
        &configuration.nftables,
        &configuration.ipvs,
    );
    for (field, period, least) in [
        ("iptables", iptables.sync_period, iptables.min_sync_period),
        ("nftables", nftables.sync_period, nftables.min_sync_period),
        ("ipvs", ipvs.sync_period, ipvs.min_sync_period),
    ] {
        if period.0.is_zero() {
            wrong.push(format!("{field}.syncPeriod: must be greater than 0"));
        }
        if least > period {
            wrong.push(format!(
                "{field}.minSyncPeriod: {least} is longer than syncPeriod, {period}"
            ));
        }
    }
    if configuration.config_sync_period.0.is_zero() {
        wrong.push("configSyncPeriod: must be greater than 0".to_owned());
    }
    for (field, bit) in [
        ("iptables", iptables.masquerade_bit),
        ("nftables", nftables.masquerade_bit),
    ] {
        if !MARK_BITS.contains(&bit) {
            wrong.push(format!("{field}.masqueradeBit: {bit} is not within 0 to 31"));
        }
    }
    if !OOM_SCORES.contains(&configuration.oom_score_adj) {
        let score = configuration.oom_score_adj;
        wrong.push(format!("oomScoreAdj: {score} is not within -1000 to 1000"));
    }
    for (field, number) in [
        ("maxPerCore", configuration.conntrack.max_per_core),
        ("min", configuration.conntrack.min),
    ] {
        if number < 0 {
            wrong.push(format!("conntrack.{field}: {number} is less than 0"));
        }
    }
    for cidr in &ipvs.exclude_cidrs {
        if cidr.parse::<IpNet>().is_err() {
            wrong.push(format!("ipvs.excludeCIDRs: {cidr:?} is not a CIDR"));
        }
    }
}

fn mode(text: &str) -> Result<Mode, String> {
    match text {
        "" => Ok(Mode::default()),
        IPVS => {
            tracing::warn!(
                "there is no ipvs mode: {} takes its place",
                Mode::default().name()
            );
            Ok(Mode::default())
        }
        text => Mode::named(text).ok_or_else(|| format!("{text:?} is none of {}", Mode::NAMES)),
    }
}

fn pods(configuration: &Configuration) -> Result<PodSelection, String> {
    let interface = |field: &str, name: &str| {
        name.parse()
            .map_err(|error| format!("detectLocal.{field}: {error}"))
    };
    Ok(match configuration.detect_local_mode.as_str() {
        "" | "ClusterCIDR" => {
            let ranges =
                cidrs(&configuration.cluster_cidr).map_err(|error| format!("clusterCIDR: {error}"))?;
            if !ranges.is_empty() {
                at_most_one_a_family(&ranges, "clusterCIDR").map_err(|error| error.0)?;
            }
            PodSelection::Given(PodDetection::Ranges(ranges))
        }
        "NodeCIDR" => PodSelection::NodeCidrs,
        "BridgeInterface" => {
            let name = interface("bridgeInterface", &configuration.detect_local.bridge_interface)?;
            PodSelection::Given(PodDetection::Interface(name))
        }
        "InterfaceNamePrefix" => {
            let name = interface(
                "interfaceNamePrefix",
                &configuration.detect_local.interface_name_prefix,
            )?;
            PodSelection::Given(PodDetection::InterfacePrefix(name))
        }
        other => {
            return Err(format!(
                "detectLocalMode: {other:?} is none of ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix"
            ));
        }
    })
}

fn cidrs(text: &str) -> Result<Vec<IpNet>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(crate::flags::cidr).collect()
}

/// `primary` or ranges, not both (KPC-11). What none means depends on the mode, as upstream (KPF-28).
fn node_port_addresses(texts: &[String], mode: Option<Mode>) -> Result<NodePortSelection, String> {
    match texts {
        [] if mode == Some(Mode::Iptables) => Ok(NodePortSelection::All),
        [] => Ok(NodePortSelection::Primary),
        [one] => one
            .parse()
            .map_err(|error: proxy::NodePortSelectionError| error.to_string()),
        many if many.iter().any(|text| text == "primary") => {
            Err("can't use both 'primary' and CIDRs".to_owned())
        }
        many => many
            .join(",")
            .parse()
            .map_err(|error: proxy::NodePortSelectionError| error.to_string()),
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("{text:?} is not an IP address"))
}

/// An address to listen on; none if it is empty (KPC-09).
pub fn socket_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let address: SocketAddr = text
        .parse()
        .map_err(|_| format!("{text:?} is not ADDRESS:PORT; an example is 0.0.0.0:10256"))?;
    match address.port() {
        0 => Err(format!("{text:?} has no port within 1 to 65535")),
        _ => Ok(Some(address)),
    }
}

fn conntrack(conntrack: &Conntrack) -> ConntrackSettings {
    ConntrackSettings {
        max_per_core: u32::try_from(conntrack.max_per_core).ok(),
        min: u32::try_from(conntrack.min).ok(),
        tcp_timeout_established: GoDuration::some(conntrack.tcp_established_timeout),
        tcp_timeout_close_wait: GoDuration::some(conntrack.tcp_close_wait_timeout),
        tcp_be_liberal: conntrack.tcp_be_liberal,
        udp_timeout: GoDuration::some(conntrack.udp_timeout),
        udp_timeout_stream: GoDuration::some(conntrack.udp_stream_timeout),
    }
}

#[cfg(test)]
mod tests;
