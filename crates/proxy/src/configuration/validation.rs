//! Validation of a configuration (KPC-08 to KPC-13), and its translation into the settings of the proxy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;
use plan::{PodDetection, Scheduler};

use super::cidr::{CidrError, parse_cidr, require_one_per_family};
use super::mode::Mode;
use super::v1alpha1::{Conntrack, KubeProxyConfiguration};
use crate::config::{Config, NodePortSelection, NodePortSelectionError, PodSelection};
use crate::leftovers::LeftoverScope;
use crate::sysctl::ConntrackSettings;

/// Range of `oom_score_adj` in the kernel (KPC-10).
const OOM_SCORES: std::ops::RangeInclusive<i32> = -1000..=1000;
/// Bits of a packet mark (KPC-10).
const MARK_BITS: std::ops::Range<i32> = 0..32;

/// A configuration with invalid values. The message lists every invalid field. No retry helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.join("; "))]
pub struct InvalidConfiguration {
    /// One message for each problem, the field first.
    pub problems: Vec<String>,
}

/// Address to listen on that is invalid. No retry helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListenAddressError {
    /// The text is not an address with a port.
    #[error("expected ADDRESS:PORT, such as 0.0.0.0:10256, found {text:?}")]
    Syntax {
        /// The text as given.
        text: String,
    },
    /// The port is 0, which would select any free port.
    #[error("expected a port from 1 to 65535, found {text:?}")]
    Port {
        /// The text as given.
        text: String,
    },
}

/// Value of a single field that is invalid.
#[derive(Debug, thiserror::Error)]
enum FieldError {
    #[error("expected an IP address, found {0:?}")]
    Ip(String),
    #[error("expected one of {names}, found {0:?}", names = Mode::NAMES)]
    Mode(String),
    #[error("expected one of the schedulers rr, wrr, lc, wlc, lblc, lblcr, sh, dh, sed, nq, mh, found {0:?}")]
    Scheduler(String),
    #[error("can't use both 'primary' and CIDRs")]
    PrimaryWithCidrs,
    #[error(transparent)]
    NodePorts(#[from] NodePortSelectionError),
}

/// Collector of problems, so that one message lists all of them.
#[derive(Debug, Default)]
struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, field: &str, problem: impl std::fmt::Display) {
        self.0.push(format!("{field}: {problem}"));
    }

    /// Returns the value of a field, or records why it is invalid.
    fn check<T, E: std::fmt::Display>(&mut self, field: &str, value: Result<T, E>) -> Option<T> {
        value.map_err(|error| self.add(field, error)).ok()
    }
}

/// Validates a configuration. Returns its mode and the settings of the proxy.
///
/// `hostname` names the Node if the configuration has no `hostnameOverride`.
///
/// # Errors
///
/// [`InvalidConfiguration`] with every invalid field.
pub fn validate(
    configuration: &KubeProxyConfiguration,
    hostname: &str,
) -> Result<(Mode, Config), InvalidConfiguration> {
    let mut problems = Problems::default();
    check_numbers(configuration, &mut problems);
    let bind_address = problems.check("bindAddress", parse_ip(&configuration.bind_address));
    let healthz = parse_listen_address(&configuration.healthz_bind_address);
    let healthz = problems.check("healthzBindAddress", healthz);
    let metrics = parse_listen_address(&configuration.metrics_bind_address);
    let metrics = problems.check("metricsBindAddress", metrics);
    let mode = problems.check("mode", parse_mode(&configuration.mode));
    let pods = pod_selection(configuration, &mut problems);
    let node_ports = node_port_addresses(&configuration.node_port_addresses, mode);
    let node_ports = problems.check("nodePortAddresses", node_ports);
    let scheduler = ipvs_scheduler(&configuration.ipvs.scheduler);
    let scheduler = problems.check("ipvs.scheduler", scheduler);
    let (
        Some(bind_address),
        Some(healthz),
        Some(metrics),
        Some(mode),
        Some(pods),
        Some(node_ports),
        Some(scheduler),
        [],
    ) = (
        bind_address,
        healthz,
        metrics,
        mode,
        pods,
        node_ports,
        scheduler,
        problems.0.as_slice(),
    )
    else {
        return Err(InvalidConfiguration { problems: problems.0 });
    };
    let config = Config {
        node_name: node_name(&configuration.hostname_override, hostname),
        pods,
        node_port_addresses: listed_by(mode, node_ports),
        masquerade_all: masquerade_all(configuration),
        bind_address,
        healthz_bind_address: healthz,
        metrics_bind_address: metrics,
        bind_address_hard_fail: configuration.bind_address_hard_fail,
        proxy_mode: mode.name().to_owned(),
        localhost_node_ports: configuration.iptables.localhost_node_ports,
        conntrack: conntrack_settings(&configuration.conntrack),
        oom_score_adj: Some(configuration.oom_score_adj),
        leftovers: Some(LeftoverScope::KubeProxyToo),
        allows_external_ips: configuration.allows_external_ips(),
        default_scheduler: default_scheduler(mode, scheduler),
        configuration: serde_json::to_value(configuration).unwrap_or_default(),
        ..config_with_periods(mode, configuration)
    };
    Ok((mode, config))
}

/// Returns the scheduler of Services without an annotation. `ipvs` is the scheduler of the section `ipvs`.
fn default_scheduler(mode: Mode, ipvs: Scheduler) -> Scheduler {
    match mode {
        Mode::Nftables | Mode::Iptables | Mode::Ebpf => Scheduler::Random,
        Mode::Userspace => Scheduler::RoundRobin,
        Mode::Ipvs => ipvs,
    }
}

/// Returns true if all traffic to cluster IPs is masqueraded, as the section of the named mode states.
/// Upstream reads the iptables section for other modes; either section counts here, because files without a
/// mode may mean either.
fn masquerade_all(configuration: &KubeProxyConfiguration) -> bool {
    let (iptables, nftables) = (&configuration.iptables, &configuration.nftables);
    match Mode::from_name(&configuration.mode) {
        Some(Mode::Nftables | Mode::Ebpf) => nftables.masquerade_all,
        Some(Mode::Iptables | Mode::Ipvs) => iptables.masquerade_all,
        Some(Mode::Userspace) | None => iptables.masquerade_all || nftables.masquerade_all,
    }
}

/// Returns warnings about a valid configuration that is probably not intended (KPC-14, KPC-15).
pub fn warnings(configuration: &KubeProxyConfiguration, mode: Mode) -> Vec<String> {
    let mut warnings = Vec::new();
    let cluster_cidrs: Vec<String> = configuration.cluster_cidr.split(',').map(str::to_owned).collect();
    let node_ports = &configuration.node_port_addresses;
    if node_ports.is_empty() && matches!(mode, Mode::Iptables | Mode::Ipvs) {
        warnings.push(
            "nodePortAddresses is not set: node ports answer on all addresses of this node; consider \"primary\""
                .to_owned(),
        );
    }
    if node_ports.is_empty() && mode == Mode::Nftables && configuration.mode.is_empty() {
        warnings.push(
            "nodePortAddresses is not set: node ports answer on the primary addresses of the Node only; kube-proxy \
             answers on all addresses in the modes iptables and ipvs, and so does \"0.0.0.0/0,::/0\""
                .to_owned(),
        );
    }
    if is_on_loopback_only(node_ports) && !configuration.iptables.localhost_node_ports {
        warnings.push(format!(
            "nodePortAddresses has loopback addresses only, {}, and iptables.localhostNodePorts is false: no address \
             answers on node ports",
            node_ports.join(",")
        ));
    }
    if let (true, false) | (false, true) = families(node_ports)
        && families(&cluster_cidrs) == (true, true)
    {
        warnings.push(format!(
            "nodePortAddresses has one IP family only, {}, but clusterCIDR has both: no address of the other family \
             answers on node ports",
            node_ports.join(",")
        ));
    }
    warnings.extend(bind_address_warning(configuration, families(&cluster_cidrs)));
    warnings
}

/// Returns true if a list of CIDRs contains loopback ranges only.
fn is_on_loopback_only(cidrs: &[String]) -> bool {
    let is_loopback = |text: &String| text.parse().is_ok_and(|range: IpNet| range.addr().is_loopback());
    !cidrs.is_empty() && cidrs.iter().all(is_loopback)
}

/// Returns a warning if Pods of the family of the bind address cannot be recognized.
fn bind_address_warning(
    configuration: &KubeProxyConfiguration,
    (has_ipv4, has_ipv6): (bool, bool),
) -> Option<String> {
    let is_by_range = matches!(configuration.detect_local_mode.as_str(), "" | "ClusterCIDR");
    let bind_address: IpAddr = configuration.bind_address.parse().ok()?;
    if !is_by_range || bind_address.is_unspecified() {
        return None;
    }
    let has_own = if bind_address.is_ipv4() {
        has_ipv4
    } else {
        has_ipv6
    };
    ((has_ipv4 || has_ipv6) && !has_own).then(|| {
        format!(
            "clusterCIDR has no range of the IP family of bindAddress, {bind_address}: the proxy cannot distinguish \
             Pods from other clients of this family, and masquerades no traffic to cluster IPs"
        )
    })
}

/// Returns true for each IP family, IPv4 and IPv6, of which a list has CIDRs.
fn families(cidrs: &[String]) -> (bool, bool) {
    let networks: Vec<IpNet> = cidrs.iter().filter_map(|text| text.trim().parse().ok()).collect();
    let has = |is_ipv4| networks.iter().any(|network| network.addr().is_ipv4() == is_ipv4);
    (has(true), has(false))
}

/// Returns default settings with the periods of the mode. The modes nftables, ebpf and userspace have the default
/// periods of repairs and of changes. Changes by nftables take little time, and the kernel reports external changes.
fn config_with_periods(mode: Mode, configuration: &KubeProxyConfiguration) -> Config {
    let defaults = Config::default();
    match mode {
        Mode::Nftables | Mode::Ebpf | Mode::Userspace => Config {
            sync_period: configuration.nftables.sync_period.0,
            ..defaults
        },
        Mode::Ipvs => Config {
            sync_period: configuration.ipvs.sync_period.0,
            repair_period: configuration.ipvs.sync_period.0,
            min_sync_period: configuration.ipvs.min_sync_period.0,
            ..defaults
        },
        Mode::Iptables => Config {
            sync_period: configuration.iptables.sync_period.0,
            repair_period: configuration.iptables.sync_period.0,
            min_sync_period: configuration.iptables.min_sync_period.0,
            ..defaults
        },
    }
}

/// Returns the Node's name: the override, or else the host name, in lower case (KPF-09).
pub fn node_name(hostname_override: &str, hostname: &str) -> String {
    match hostname_override.trim() {
        "" => hostname.to_ascii_lowercase(),
        name => name.to_ascii_lowercase(),
    }
}

/// Checks periods, ports and other numbers.
fn check_numbers(configuration: &KubeProxyConfiguration, problems: &mut Problems) {
    let (iptables, nftables, ipvs) = (
        &configuration.iptables,
        &configuration.nftables,
        &configuration.ipvs,
    );
    for (section, period, min_period) in [
        ("iptables", iptables.sync_period, iptables.min_sync_period),
        ("nftables", nftables.sync_period, nftables.min_sync_period),
        ("ipvs", ipvs.sync_period, ipvs.min_sync_period),
    ] {
        if period.0.is_zero() {
            problems.add(&format!("{section}.syncPeriod"), "expected more than 0, found 0");
        }
        if min_period > period {
            problems.add(
                &format!("{section}.minSyncPeriod"),
                format_args!("expected at most syncPeriod, {period}, found {min_period}"),
            );
        }
    }
    if configuration.config_sync_period.0.is_zero() {
        problems.add("configSyncPeriod", "expected more than 0, found 0");
    }
    for (section, bit) in [
        ("iptables", iptables.masquerade_bit),
        ("nftables", nftables.masquerade_bit),
    ] {
        if !MARK_BITS.contains(&bit) {
            problems.add(
                &format!("{section}.masqueradeBit"),
                format_args!("expected a bit from 0 to 31, found {bit}"),
            );
        }
    }
    let score = configuration.oom_score_adj;
    if !OOM_SCORES.contains(&score) {
        problems.add(
            "oomScoreAdj",
            format_args!("expected a score from -1000 to 1000, found {score}"),
        );
    }
    for (field, number) in [
        ("conntrack.maxPerCore", configuration.conntrack.max_per_core),
        ("conntrack.min", configuration.conntrack.min),
    ] {
        if number < 0 {
            problems.add(field, format_args!("expected 0 or more, found {number}"));
        }
    }
    for cidr in &ipvs.exclude_cidrs {
        if cidr.parse::<IpNet>().is_err() {
            problems.add("ipvs.excludeCIDRs", format_args!("{cidr:?} is not a CIDR"));
        }
    }
}

/// Parses the name of a scheduler of IPVS (IPV-02). Empty selects round robin. IPVS has no random choice.
fn ipvs_scheduler(text: &str) -> Result<Scheduler, FieldError> {
    match text {
        "" => Ok(Scheduler::RoundRobin),
        text => Scheduler::named(text)
            .filter(|scheduler| *scheduler != Scheduler::Random)
            .ok_or_else(|| FieldError::Scheduler(text.to_owned())),
    }
}

/// Returns the addresses of node ports as the mode needs them: IPVS has a virtual server for each address.
fn listed_by(mode: Mode, node_ports: NodePortSelection) -> NodePortSelection {
    match node_ports {
        NodePortSelection::All if mode == Mode::Ipvs => {
            let unspecified = [
                IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            ];
            let nets = unspecified
                .into_iter()
                .filter_map(|address| IpNet::new(address, 0).ok());
            NodePortSelection::Within(nets.collect())
        }
        node_ports => node_ports,
    }
}

/// Parses the name of a mode. Empty selects the default.
fn parse_mode(text: &str) -> Result<Mode, FieldError> {
    match text {
        "" => Ok(Mode::default()),
        text => Mode::from_name(text).ok_or_else(|| FieldError::Mode(text.to_owned())),
    }
}

fn pod_selection(configuration: &KubeProxyConfiguration, problems: &mut Problems) -> Option<PodSelection> {
    let interfaces = &configuration.detect_local;
    let detection = match configuration.detect_local_mode.as_str() {
        "" | "ClusterCIDR" => {
            let ranges = problems.check("clusterCIDR", parse_cluster_cidrs(&configuration.cluster_cidr))?;
            PodDetection::Ranges(ranges)
        }
        "NodeCIDR" => return Some(PodSelection::NodeCidrs),
        "BridgeInterface" => {
            let name = interfaces.bridge_interface.parse();
            PodDetection::Interface(problems.check("detectLocal.bridgeInterface", name)?)
        }
        "InterfaceNamePrefix" => {
            let prefix = interfaces.interface_name_prefix.parse();
            PodDetection::InterfacePrefix(problems.check("detectLocal.interfaceNamePrefix", prefix)?)
        }
        other => {
            problems.add(
                "detectLocalMode",
                format_args!(
                    "expected ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix, found {other:?}"
                ),
            );
            return None;
        }
    };
    Some(PodSelection::Given(detection))
}

/// Parses a list of CIDRs separated by commas; none, one, or one of each IP family.
fn parse_cluster_cidrs(text: &str) -> Result<Vec<IpNet>, CidrError> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let networks: Vec<IpNet> = parts.map(parse_cidr).collect::<Result<_, _>>()?;
    if !networks.is_empty() {
        require_one_per_family(&networks)?;
    }
    Ok(networks)
}

/// Parses `primary` or ranges, but not both (KPC-11). The default depends on the mode, as upstream (KPF-28).
fn node_port_addresses(texts: &[String], mode: Option<Mode>) -> Result<NodePortSelection, FieldError> {
    match texts {
        [] if matches!(mode, Some(Mode::Iptables | Mode::Ipvs)) => Ok(NodePortSelection::All),
        [] => Ok(NodePortSelection::Primary),
        [_, _, ..] if texts.iter().any(|text| text == "primary") => Err(FieldError::PrimaryWithCidrs),
        texts => Ok(texts.join(",").parse()?),
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, FieldError> {
    text.parse().map_err(|_| FieldError::Ip(text.to_owned()))
}

/// Parses an address to listen on; empty means none (KPC-09).
///
/// # Errors
///
/// A [`ListenAddressError`] if the text is not `ADDRESS:PORT`, or if the port is 0.
pub fn parse_listen_address(text: &str) -> Result<Option<SocketAddr>, ListenAddressError> {
    if text.is_empty() {
        return Ok(None);
    }
    let address: SocketAddr = text.parse().map_err(|_| ListenAddressError::Syntax {
        text: text.to_owned(),
    })?;
    if address.port() == 0 {
        return Err(ListenAddressError::Port {
            text: text.to_owned(),
        });
    }
    Ok(Some(address))
}

fn conntrack_settings(conntrack: &Conntrack) -> ConntrackSettings {
    ConntrackSettings {
        max_per_core: u32::try_from(conntrack.max_per_core).ok(),
        min: u32::try_from(conntrack.min).ok(),
        tcp_timeout_established: conntrack.tcp_established_timeout.non_zero(),
        tcp_timeout_close_wait: conntrack.tcp_close_wait_timeout.non_zero(),
        tcp_be_liberal: conntrack.tcp_be_liberal,
        udp_timeout: conntrack.udp_timeout.non_zero(),
        udp_timeout_stream: conntrack.udp_stream_timeout.non_zero(),
    }
}

#[cfg(test)]
mod tests;
