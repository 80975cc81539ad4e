//! Node proxies that run on this node, with their state.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use clap::{Args as _, FromArgMatches as _};
use explain::observation::NodeProxy;
use ipnet::IpNet;
use jiff::Timestamp;
use proxy::configuration::{self, KubeProxyConfiguration};
use serde_json::Value;

use super::local_servers::LocalServers;
use super::processes::{self, Process};
use super::sysctls::text_of;
use crate::flags::node_proxy::NodeProxyFlags;
use crate::flags::values::hostname;
use crate::status_client::{self, StatusError};

/// Time for a response of a proxy.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(800);
/// Maximum number of proxies of a node.
const PROXIES_MAX: usize = 16;
/// Default ports of kube-proxy, which Portolan has, too.
const HEALTH_PORT: u16 = 10_256;
const METRICS_PORT: u16 = 10_249;
/// Metrics with the time of the last write of rules, and of the last change that requires one.
const LAST_SYNC_METRIC: &str = "kubeproxy_sync_proxy_rules_last_timestamp_seconds";
const LAST_CHANGE_METRIC: &str = "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds";
/// Directory of Cilium's settings in its container.
const CILIUM_SETTINGS: &str = "/tmp/cilium/config-map";

/// Program of a node proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// `portolan proxy`, `portolan up` or `portolan join`.
    Portolan,
    /// kube-proxy, or a program that embeds it.
    KubeProxy,
    /// cilium-agent, which replaces kube-proxy if its settings state it.
    Cilium,
    /// kube-router with its service proxy.
    KubeRouter,
}

/// A node proxy that runs here.
#[derive(Clone, Debug)]
pub(crate) struct RunningProxy {
    /// The observation.
    pub observed: NodeProxy,
    /// Program.
    pub program: Program,
    /// Configuration, if it is known.
    pub configuration: Option<KubeProxyConfiguration>,
}

/// Returns the proxies in the network namespace `own`, which is that of this process.
pub(super) fn read(processes: &[Process], own: u64, hostname: &str) -> Vec<RunningProxy> {
    let servers = &LocalServers::read(own);
    let is_here = |process: &&Process| process.namespace.is_none_or(|namespace| namespace == own);
    let found = processes
        .iter()
        .filter(is_here)
        .filter_map(|process| Some((process, program(process)?)));
    let found: Vec<(&Process, Program)> = found.take(PROXIES_MAX).collect();
    // Proxies that do not respond take the whole timeout, so they are queried at the same time.
    std::thread::scope(|scope| {
        let threads: Vec<_> = found
            .iter()
            .map(|(process, program)| scope.spawn(move || observe(process, *program, hostname, servers)))
            .collect();
        let joined = threads.into_iter().filter_map(|thread| thread.join().ok());
        joined.flatten().collect()
    })
}

/// Returns the proxies in the network namespace of this process; none if other processes are hidden.
pub(crate) fn running_proxies() -> Vec<RunningProxy> {
    let found = processes::read_all().and_then(|all| Ok((all, processes::own_namespace()?)));
    match found {
        Ok((all, own)) => read(&all, own, &hostname()),
        Err(_) => Vec::new(),
    }
}

/// Returns the program of a node proxy.
fn program(process: &Process) -> Option<Program> {
    let command = process
        .arguments
        .iter()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let command = command.map(String::as_str).unwrap_or_default();
    let has = |argument: &str| process.arguments.iter().any(|found| found == argument);
    match process.file_name() {
        "portolan" => {
            let is_proxy = matches!(command, "up" | "join") || (command == "proxy" && !has("status"));
            let only_writes = ["cleanup", "init-only"]
                .iter()
                .any(|flag| process.flag(flag) == Some("true"));
            (is_proxy && !only_writes && process.flag("write-config-to").is_none())
                .then_some(Program::Portolan)
        }
        "kube-proxy" | "kubelite" => Some(Program::KubeProxy),
        "k3s" => {
            let is_disabled = process.flag("disable-kube-proxy") == Some("true");
            (matches!(command, "server" | "agent") && !is_disabled).then_some(Program::KubeProxy)
        }
        "cilium-agent" => Some(Program::Cilium),
        "kube-router" => (process.flag("run-service-proxy") != Some("false")).then_some(Program::KubeRouter),
        _ => None,
    }
}

/// Returns the state of a proxy; `None` if the program is not a node proxy.
fn observe(
    process: &Process,
    program: Program,
    hostname: &str,
    servers: &LocalServers,
) -> Option<RunningProxy> {
    let mut observed = NodeProxy {
        name: process.file_name().to_owned(),
        process_id: Some(process.id),
        ..NodeProxy::default()
    };
    let mut configuration = None;
    match program {
        Program::Portolan | Program::KubeProxy => {
            let own = Endpoints::of(process, file_configuration(process).as_ref());
            let read = |address: Option<SocketAddr>, path: &str| {
                let address = address.filter(|address| servers.is_answered_by(*address, process))?;
                Some(status_client::read_text(address, path, RESPONSE_TIMEOUT))
            };
            observed.healthy = healthy(&|path| read(own.health, path));
            let text = |path: &str| read(own.metrics, path)?.ok();
            configuration = text("/configz")
                .and_then(|text| parse_configz(&text))
                .or_else(|| file_configuration(process))
                .or_else(|| flag_configuration(process));
            fill_from_metrics(&mut observed, &text);
            observed.mode = observed
                .mode
                .take()
                .or_else(|| mode(process, configuration.as_ref()));
            observed.node_name = Some(node_name(process, configuration.as_ref(), hostname));
            observed.cluster_cidrs = cluster_cidrs(process, configuration.as_ref());
        }
        Program::Cilium => match cilium_replaces(process) {
            Some(false) => return None,
            replaces => observed.mode = replaces.map(|_| "ebpf".to_owned()),
        },
        Program::KubeRouter => observed.mode = Some("ipvs".to_owned()),
    }
    Some(RunningProxy {
        observed,
        program,
        configuration,
    })
}

/// Addresses of a proxy's servers.
#[derive(Debug, PartialEq, Eq)]
struct Endpoints {
    health: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
}

impl Endpoints {
    fn of(process: &Process, file: Option<&KubeProxyConfiguration>) -> Self {
        let flag = |name: &str| process.flag(name).map(str::to_owned);
        let health = file.map(|file| file.healthz_bind_address.clone());
        let metrics = file.map(|file| file.metrics_bind_address.clone());
        Self {
            health: listen_address(health.or_else(|| flag("healthz-bind-address")), HEALTH_PORT),
            metrics: listen_address(metrics.or_else(|| flag("metrics-bind-address")), METRICS_PORT),
        }
    }
}

/// Returns the address at which a client on this node reaches a server; `None` if the server is turned off.
fn listen_address(text: Option<String>, port: u16) -> Option<SocketAddr> {
    let Some(text) = text else {
        return Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    };
    let parsed = text
        .parse::<SocketAddr>()
        .or_else(|_| text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, port)));
    let mut address = match (parsed, text.as_str()) {
        (Ok(address), _) => address,
        (Err(_), "") => return None,
        (Err(_), _) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
    };
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    Some(address)
}

/// Returns the response of the health server. `/livez` does not depend on the Node; older versions lack it.
fn healthy(read: &dyn Fn(&str) -> Option<Result<String, StatusError>>) -> Option<bool> {
    let is_healthy = |response: &Result<String, StatusError>| match response {
        Ok(_) => Some(true),
        Err(StatusError::Rejected { status, .. }) => status.contains(" 503").then_some(false),
        Err(_) => None,
    };
    let live = read("/livez")?;
    let is_absent = matches!(&live, Err(StatusError::Rejected { status, .. }) if status.contains(" 404"));
    if is_absent {
        return is_healthy(&read("/healthz")?);
    }
    is_healthy(&live)
}

/// Fills in the state from the metrics server.
fn fill_from_metrics(observed: &mut NodeProxy, text: &dyn Fn(&str) -> Option<String>) {
    observed.mode = text("/proxyMode").map(|mode| mode.trim().to_owned());
    let now = Timestamp::now();
    if let Some(status) = text("/status").and_then(|text| serde_json::from_str::<Value>(&text).ok()) {
        let last_sync = status["lastSync"]
            .as_str()
            .and_then(|time| time.parse::<Timestamp>().ok());
        observed.seconds_since_sync = last_sync.map(|time| seconds_between(time.as_second(), now));
        observed.seconds_behind = status["secondsBehind"].as_u64();
        observed.seconds_without_api = status["secondsWithoutAPI"].as_u64();
        return;
    }
    let Some(metrics) = text("/metrics") else { return };
    let metric = |name: &str| metric(&metrics, name).filter(|time| *time > 0);
    let last_sync = metric(LAST_SYNC_METRIC);
    observed.seconds_since_sync = last_sync.map(|time| seconds_between(time, now));
    observed.seconds_behind = metric(LAST_CHANGE_METRIC).map(|changed| {
        let is_behind = last_sync.is_none_or(|synced| changed > synced);
        if is_behind {
            seconds_between(changed, now)
        } else {
            0
        }
    });
}

fn seconds_between(earlier: i64, now: Timestamp) -> u64 {
    u64::try_from(now.as_second().saturating_sub(earlier)).unwrap_or(0)
}

/// Returns the value of a metric without labels, in whole seconds.
fn metric(text: &str, name: &str) -> Option<i64> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    value.trim().parse::<f64>().ok().map(|seconds| seconds as i64)
}

fn parse_configz(text: &str) -> Option<KubeProxyConfiguration> {
    let tree: Value = serde_json::from_str(text).ok()?;
    let configuration = tree.as_object()?.get("kubeproxy.config.k8s.io")?;
    serde_json::from_value(configuration.clone()).ok()
}

/// Reads the configuration file of a proxy, in the file system of its process.
fn file_configuration(process: &Process) -> Option<KubeProxyConfiguration> {
    let path = process.flag("config").filter(|_| process.file_name() != "k3s")?;
    let text = text_of(process.open(path).ok()?)?;
    let (configuration, _) = configuration::parse(Path::new(path), &text).ok()?;
    Some(configuration)
}

/// Returns the configuration that the flags of `portolan proxy` stand for. The settings of `up` and `join` depend on the
/// cluster.
fn flag_configuration(process: &Process) -> Option<KubeProxyConfiguration> {
    let is_proxy = process.arguments.iter().any(|argument| argument == "proxy");
    if process.file_name() != "portolan" || !is_proxy || process.flag("config").is_some() {
        return None;
    }
    let mut command = NodeProxyFlags::augment_args(clap::Command::new("proxy"));
    command.build();
    let known = command
        .get_arguments()
        .filter_map(clap::Arg::get_long_and_visible_aliases);
    let given: Vec<String> = known
        .flatten()
        .filter_map(|name| Some(format!("--{name}={}", process.flag(name)?)))
        .collect();
    let line = std::iter::once("proxy".to_owned()).chain(given);
    let matches = command.try_get_matches_from(line).ok()?;
    let flags = NodeProxyFlags::from_arg_matches(&matches).ok()?;
    let mut configuration = KubeProxyConfiguration::default();
    flags.write(&mut configuration);
    let text = |name: &str| process.flag(name).unwrap_or_default().to_owned();
    configuration.detect_local_mode = text("detect-local-mode");
    configuration.detect_local.bridge_interface = text("pod-bridge-interface");
    configuration.detect_local.interface_name_prefix = text("pod-interface-name-prefix");
    Some(configuration)
}

fn mode(process: &Process, configuration: Option<&KubeProxyConfiguration>) -> Option<String> {
    let mode = match configuration {
        Some(configuration) => configuration.mode.as_str(),
        None => process.flag("proxy-mode").unwrap_or_default(),
    };
    match (mode, process.file_name()) {
        ("", "portolan") => Some("nftables".to_owned()),
        // The default of kube-proxy depends on its version.
        ("", _) => None,
        (mode, _) => Some(mode.to_owned()),
    }
}

/// Returns the name of the Node that a proxy uses. The flag takes precedence over the file.
fn node_name(process: &Process, configuration: Option<&KubeProxyConfiguration>, hostname: &str) -> String {
    let flag = process
        .flag("hostname-override")
        .or_else(|| process.flag("node-name"));
    let file = configuration.map(|configuration| configuration.hostname_override.as_str());
    let name = flag.or(file).unwrap_or_default();
    configuration::node_name(name, hostname)
}

/// Returns the ranges by which a proxy detects Pods; `None` if it detects them in another way.
fn cluster_cidrs(process: &Process, configuration: Option<&KubeProxyConfiguration>) -> Option<Vec<IpNet>> {
    let (mode, text) = match configuration {
        Some(configuration) => (
            configuration.detect_local_mode.as_str(),
            configuration.cluster_cidr.as_str(),
        ),
        None => (
            process.flag("detect-local-mode").unwrap_or_default(),
            process.flag("cluster-cidr").unwrap_or_default(),
        ),
    };
    let ranges: Vec<IpNet> = text
        .split(',')
        .filter_map(|range| range.trim().parse().ok())
        .collect();
    let is_by_range = matches!(mode, "" | "ClusterCIDR");
    (is_by_range && !ranges.is_empty()).then_some(ranges)
}

/// Returns true if Cilium replaces kube-proxy; `None` if its settings cannot be read.
fn cilium_replaces(process: &Process) -> Option<bool> {
    let name = "kube-proxy-replacement";
    let directory = process.flag("config-dir").unwrap_or(CILIUM_SETTINGS);
    let setting = process
        .flag(name)
        .map(str::to_owned)
        .or_else(|| text_of(process.open(&format!("{directory}/{name}")).ok()?))?;
    match setting.as_str() {
        "true" | "strict" => Some(true),
        "false" | "disabled" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
