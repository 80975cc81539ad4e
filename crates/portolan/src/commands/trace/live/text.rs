//! Sent packets as text: each connection with its rules, and the differences.

use explain::trace::live::{AtConnect, Connection, Live};

use crate::output::printable;

/// Renders the sent packets. Names of foreign tables contain no control characters in the result.
pub(crate) fn render(live: &Live) -> String {
    let mut lines = vec![String::new(), heading(live)];
    lines.extend(live.notes.iter().map(|note| format!("  note: {note}")));
    for connection in &live.connections {
        lines.extend(connection_lines(connection));
    }
    if !live.has_disagreement() {
        lines.push("  plan and kernel agree".to_owned());
    }
    lines.iter().map(|line| printable(line) + "\n").collect()
}

fn heading(live: &Live) -> String {
    let count = live.connections.len();
    let plural = if count == 1 { "" } else { "s" };
    let mode = live
        .mode
        .as_ref()
        .map_or(String::new(), |mode| format!(", proxy mode {mode}"));
    format!("Sent {count} packet{plural} from this host{mode}")
}

fn connection_lines(connection: &Connection) -> Vec<String> {
    let Connection {
        source,
        destination,
        milliseconds,
        ..
    } = connection;
    let response = connection.response.as_str();
    let at_connect = match connection.at_connect {
        None => String::new(),
        Some(AtConnect::Endpoint(endpoint)) => format!("; eBPF: endpoint {endpoint}"),
        Some(AtConnect::Refused) => "; eBPF: refused".to_owned(),
    };
    let entry = match &connection.entry {
        None => String::new(),
        Some(entry) => {
            let seen = if entry.client_seen == source.ip() {
                String::new()
            } else {
                format!(", masqueraded as {}", entry.client_seen)
            };
            format!("; conntrack: endpoint {}{seen}", entry.endpoint)
        }
    };
    let mut lines = vec![format!(
        "  {source} -> {destination}: {response} after {milliseconds} ms{at_connect}{entry}"
    )];
    let rules = connection.rules.iter();
    lines.extend(rules.map(|rule| format!("    {} {}: {}", rule.table, rule.chain, rule.verdict)));
    let differences = connection.disagreements.iter();
    lines.extend(differences.map(|difference| format!("    {difference}")));
    lines
}

#[cfg(test)]
mod tests;
