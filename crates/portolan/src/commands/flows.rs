//! `portolan flows`: single connections and UDP flows of Services.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use api::object::Protocol;
use clap::Args;
use explain::trace::ClientName;
use explain::traffic::{ClusterTraffic, FlowRow, Names, NodeFlow, PeerKind, RowSelection, Selection};
use ipnet::IpNet;
use jiff::Timestamp;

use super::doctor::scope::{self, ScopeFlags};
use super::top::notes::notes;
use super::top::units::bytes_text;
use super::top::{Format, exit_code};
use crate::error::{CommandError, InvalidValue, UsageError};
use crate::flags::traffic::TrafficFlags;
use crate::output::{self, age, printable};
use crate::traffic::query::{self, Query, ROWS_MAX};
use crate::traffic::source::Source;

/// Flags of `portolan flows`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    scope: ScopeFlags,
    /// Client: pod/NAMESPACE/NAME, node/NAME, or an IP address [default: all clients]
    #[arg(long, value_name = "CLIENT")]
    from: Option<ClientName>,
    /// Protocol: TCP, UDP or SCTP [default: all protocols]
    #[arg(long, value_name = "PROTOCOL", value_parser = protocol)]
    protocol: Option<Protocol>,
    /// Maximum number of flows of each node; those with the most bytes in the interval are shown
    #[arg(long, default_value_t = 1_000, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=ROWS_MAX as u64))]
    limit: u64,
    /// Show each interval until the command is stopped
    #[arg(long, short)]
    watch: bool,
    /// Output format
    #[arg(long, short, default_value = "table", value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    traffic: TrafficFlags,
}

/// Returns the ranges of a client's addresses.
fn ranges(client: &ClientName, names: &Names) -> Result<Vec<IpNet>, UsageError> {
    let (kind, name) = match client {
        ClientName::Address(address) => return Ok(vec![IpNet::from(*address)]),
        ClientName::Pod { namespace, name } => (PeerKind::Pod, format!("{namespace}/{name}")),
        ClientName::Node(name) => (PeerKind::Node, name.clone()),
    };
    let ranges: Vec<IpNet> = names.addresses_of(kind, &name).map(IpNet::from).collect();
    if ranges.is_empty() {
        return Err(UsageError(format!(
            "--from: no address of {name} is known: the object does not exist, has no address of its own, or is not readable"
        )));
    }
    Ok(ranges)
}

fn protocol(text: &str) -> Result<Protocol, InvalidValue> {
    query::protocol(text).ok_or_else(|| InvalidValue::new(text, "TCP, UDP or SCTP"))
}

/// Shows flows. The exit code is 1 if no node has reported.
///
/// # Errors
///
/// An error if a flag is invalid, or traffic cannot be read.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    let selection = match scope::service(&flags.scope.parse()?) {
        Some(key) => Selection::Service(key),
        None => Selection::All,
    };
    let query = Query {
        interval: flags.traffic.interval,
        selection,
        rows: RowSelection {
            rows_max: usize::try_from(flags.limit).unwrap_or(ROWS_MAX),
            clients: Vec::new(),
            protocol: flags.protocol,
        },
    };
    let mut source = Source::open(&flags.traffic, query)?;
    if let Some(client) = &flags.from {
        let ranges = ranges(client, source.names())?;
        source.query_mut().rows.clients = ranges;
    }
    let never = AtomicBool::new(false);
    loop {
        let traffic = source.next(&never)?;
        let text = match flags.output.object(&traffic, flags.watch)? {
            Some(text) => text,
            None => text(&traffic, flags),
        };
        for note in notes(&traffic) {
            eprintln!("portolan: {note}");
        }
        if !output::print_while_open(&text) || !flags.watch {
            return Ok(exit_code(&traffic));
        }
    }
}

/// Renders a table with one line a flow.
fn text(traffic: &ClusterTraffic, flags: &Flags) -> String {
    let is_wide = flags.output == Format::Wide;
    let mut rows: Vec<Vec<String>> = vec![titles(is_wide)];
    rows.extend(traffic.flows.iter().map(|flow| row(flow, is_wide)));
    let mut text = String::new();
    if flags.watch {
        text.push_str(&format!("{}\n", Timestamp::now().strftime("%H:%M:%S")));
    }
    if traffic.flows.is_empty() && traffic.has_reports() {
        text.push_str("No flows of Services in the interval\n");
        return text;
    }
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    for row in &rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    if flags.watch {
        text.push('\n');
    }
    text
}

fn titles(is_wide: bool) -> Vec<String> {
    let mut titles = vec![
        "PROTOCOL",
        "SERVICE",
        "FRONTEND",
        "CLIENT",
        "ENDPOINT",
        "STATE",
        "AGE",
        "TO-ENDPOINT",
        "TO-CLIENT",
    ];
    if is_wide {
        titles.extend([
            "NODE",
            "CLIENT-NAME",
            "ENDPOINT-NAME",
            "MASQUERADED-AS",
            "EXPIRES",
        ]);
    }
    titles.into_iter().map(str::to_owned).collect()
}

fn row(found: &NodeFlow, is_wide: bool) -> Vec<String> {
    let flow = &found.flow;
    let dash = || "-".to_owned();
    let optional = |address: Option<SocketAddr>| address.map_or_else(dash, |address| address.to_string());
    let mut cells = vec![
        flow.protocol.as_str().to_owned(),
        service(flow),
        frontend(flow),
        flow.client.to_string(),
        optional(flow.endpoint),
        flow.state.clone(),
        age_text(flow),
        bytes_text(flow.bytes_to_endpoint),
        bytes_text(flow.bytes_to_client),
    ];
    if is_wide {
        cells.extend([
            found.node.clone(),
            found.client_peer.to_string(),
            found
                .endpoint_peer
                .as_ref()
                .map_or_else(dash, ToString::to_string),
            optional(flow.masqueraded_as),
            age(flow.expires_in_seconds),
        ]);
    }
    cells.iter().map(|cell| printable(cell)).collect()
}

fn service(flow: &FlowRow) -> String {
    match flow.port_name.as_str() {
        "" => format!("{}/{}", flow.namespace, flow.name),
        port => format!("{}/{}:{port}", flow.namespace, flow.name),
    }
}

fn frontend(flow: &FlowRow) -> String {
    match flow.address {
        Some(address) => SocketAddr::new(address, flow.port).to_string(),
        None => format!("node port {}", flow.port),
    }
}

/// Returns the age, with `>` if the start was not observed.
fn age_text(flow: &FlowRow) -> String {
    // Reports of other hosts may state any number; the conversion saturates.
    let age = age(flow.age_seconds.max(0.0) as u64);
    if flow.may_be_older { format!(">{age}") } else { age }
}

#[cfg(test)]
mod tests;
