//! `portolan proxy status`: state of the proxy on this node.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;

use crate::error::CommandError;
use crate::output::Format;
use crate::status_client::{self, StatusError};

/// Flags of `portolan proxy status`.
#[derive(Debug, Args)]
pub(super) struct Flags {
    /// Address of the proxy's metrics server, as in its --metrics-bind-address
    #[arg(long, default_value = "127.0.0.1:10249", value_name = "ADDRESS:PORT")]
    address: SocketAddr,
    /// Number of busiest Services to show; counting their connections reads all conntrack entries
    #[arg(long, default_value_t = 10, value_name = "COUNT")]
    services: usize,
    /// Output format
    #[arg(long, short, default_value = "text", value_name = "FORMAT")]
    output: Format,
}

/// Reads and prints the state. The exit code is 0 if the proxy is healthy and no Service has a fault.
///
/// # Errors
///
/// An error if the proxy does not respond.
pub(super) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    let status = read(flags.address, flags.services).map_err(|error| {
        format!(
            "the proxy does not respond on {}: {error}; is it running?",
            flags.address
        )
    })?;
    flags.output.print(&status, || text(&status));
    let is_healthy = status["healthy"] == true && status["faultyServices"] == 0;
    Ok(if is_healthy {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn read(address: SocketAddr, services: usize) -> Result<Value, StatusError> {
    let path = match services {
        0 => "/status".to_owned(),
        services => format!("/status?services={services}"),
    };
    status_client::read(address, &path)
}

/// Returns the connections that eBPF served, if there are some.
fn connections_at_connect(service: &Value) -> String {
    let count = |name: &str| service[name].as_u64().unwrap_or_default();
    match (count("chosenAtConnect"), count("refusedAtConnect")) {
        (0, 0) => String::new(),
        (chosen, 0) => format!(", {chosen} by eBPF"),
        (chosen, refused) => format!(", {chosen} by eBPF, {refused} refused"),
    }
}

/// Text of lines, each with a name and a value.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, value: &str) {
        // Writing to a String cannot fail.
        writeln!(self.0, "{name:<26}{value}").unwrap_or_default();
    }
}

fn text(status: &Value) -> String {
    let mut lines = Lines::default();
    add_state(&mut lines, status);
    add_counts(&mut lines, status);
    add_busiest_services(&mut lines, status);
    add_faults(&mut lines, status);
    lines.0
}

/// Returns a value of the status as text.
fn plain_text(status: &Value, name: &str) -> String {
    match &status[name] {
        Value::String(text) => text.clone(),
        Value::Null => "never".to_owned(),
        other => other.to_string(),
    }
}

fn add_state(lines: &mut Lines, status: &Value) {
    lines.add("Node", &plain_text(status, "node"));
    lines.add("Mode", &plain_text(status, "mode"));
    if let Some(ebpf) = status["ebpf"].as_object() {
        let state = match ebpf["fault"].as_str() {
            Some(fault) => format!("not usable, nftables serves all connections: {fault}"),
            None if ebpf["attached"] == true => format!("attached, {} frontends", ebpf["frontends"]),
            None => "not attached".to_owned(),
        };
        lines.add("eBPF", &state);
    }
    if let Some(fault) = status["dataPlaneFault"].as_str() {
        let state = format!("nftables serves all connections: {fault}");
        lines.add("Data plane", &state);
    }
    lines.add("Healthy", &plain_text(status, "healthy"));
    lines.add("Last sync", &plain_text(status, "lastSync"));
}

fn add_counts(lines: &mut Lines, status: &Value) {
    let plain = |name: &str| plain_text(status, name);
    let syncs = format!("{}, of which {} failed", plain("syncs"), plain("failedSyncs"));
    lines.add("Syncs", &syncs);
    let changes = format!(
        "{} of Services, {} of endpoints",
        plain("pendingServiceChanges"),
        plain("pendingEndpointChanges")
    );
    lines.add("Changes pending", &changes);
    for family in ["IPv4", "IPv6"] {
        let counts = &status[family];
        let ports = format!(
            "{} Service ports, {} endpoints; {} ports drop packets, because no endpoint is local",
            counts["servicePorts"], counts["endpoints"], counts["withoutLocalEndpoints"]
        );
        lines.add(family, &ports);
    }
    lines.add(
        "Drift repaired",
        &format!("{} elements", plain("repairedElements")),
    );
    lines.add("Stale flows deleted", &plain("deletedFlows"));
    lines.add("Connections drained", &plain("drainedConnections"));
}

fn add_busiest_services(lines: &mut Lines, status: &Value) {
    for (number, service) in status["services"].as_array().into_iter().flatten().enumerate() {
        let bytes = match service["bytes"].as_u64() {
            None | Some(0) => String::new(),
            Some(bytes) => format!(", {bytes} bytes"),
        };
        let name = if number == 0 { "Busiest Services" } else { "" };
        let connections = format!(
            "{}: {} connections{bytes}{}",
            service["service"].as_str().unwrap_or_default(),
            service["connections"],
            connections_at_connect(service)
        );
        lines.add(name, &connections);
    }
}

fn add_faults(lines: &mut Lines, status: &Value) {
    lines.add("Services with faults", &plain_text(status, "faultyServices"));
    for (service, faults) in status["faults"].as_object().into_iter().flatten() {
        for fault in faults.as_array().into_iter().flatten() {
            let fault = format!("{service}: {}", fault.as_str().unwrap_or_default());
            lines.add("", &fault);
        }
    }
}
