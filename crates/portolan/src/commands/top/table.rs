//! Tables of traffic, for text and for the screen.

use std::cmp::Ordering;

use clap::ValueEnum;
use explain::traffic::{ClientRow, ClusterTraffic, EndpointRow, FrontendRow, Rates, ServiceRow};

use super::units::{byte_rate_text, rate_text};
use crate::output::printable;

/// Order of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortKey {
    /// Open connections, the most first
    #[default]
    Connections,
    /// New connections per second, the most first
    Rate,
    /// Bytes per second in both directions, the most first
    Bytes,
    /// Unanswered and refused connections, the most first
    Failed,
    /// Name
    Name,
}

impl SortKey {
    /// Returns the name of the flag's value.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Rate => "rate",
            Self::Bytes => "bytes",
            Self::Failed => "failed",
            Self::Name => "name",
        }
    }

    /// Compares rows. Equal rows keep the order of their names.
    fn compare(self, one: &Rates, other: &Rates) -> Ordering {
        let bytes = |rates: &Rates| rates.bytes_per_second().unwrap_or_default();
        match self {
            Self::Connections => other.connections.cmp(&one.connections),
            Self::Rate => other
                .connections_per_second
                .total_cmp(&one.connections_per_second),
            Self::Bytes => bytes(other).total_cmp(&bytes(one)),
            Self::Failed => other.failed.cmp(&one.failed),
            Self::Name => Ordering::Equal,
        }
    }
}

/// Rows of a table with the titles of its columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// Titles. The first columns are texts, the others numbers.
    pub titles: Vec<&'static str>,
    /// Number of columns with texts.
    pub texts: usize,
    /// Cells without control characters.
    pub rows: Vec<Vec<String>>,
}

/// Titles of the numbers.
const NUMBERS: [&str; 6] = [
    "CONNECTIONS",
    "NEW",
    "TO-ENDPOINTS",
    "TO-CLIENTS",
    "UNANSWERED",
    "REFUSED",
];

impl Table {
    fn new(texts: &[&'static str]) -> Self {
        Self {
            titles: texts.iter().chain(&NUMBERS).copied().collect(),
            texts: texts.len(),
            rows: Vec::new(),
        }
    }

    fn push(&mut self, texts: Vec<String>, rates: &Rates) {
        let texts = texts.iter().map(|text| printable(text));
        self.rows.push(texts.chain(numbers(rates)).collect());
    }

    /// Returns the Services of the traffic. With `wide`, the numbers of endpoints and clients are added.
    pub(crate) fn of_services(traffic: &ClusterTraffic, sort: SortKey, wide: bool) -> Self {
        let mut table = Self::new(&["NAMESPACE", "NAME"]);
        if wide {
            table.titles.extend(["ENDPOINTS", "CLIENTS", "FRONTENDS"]);
        }
        for service in sorted_services(traffic, sort) {
            table.push(
                vec![service.namespace.clone(), service.name.clone()],
                &service.rates,
            );
            if let Some(row) = table.rows.last_mut().filter(|_| wide) {
                let count = |shown: usize, omitted: u64| (shown as u64).saturating_add(omitted).to_string();
                row.push(count(service.endpoints.len(), service.endpoints_omitted));
                row.push(count(service.clients.len(), service.clients_omitted));
                let frontends: Vec<String> = service.frontends.iter().map(frontend).collect();
                row.push(printable(&frontends.join(",")));
            }
        }
        table
    }

    /// Returns the endpoints of Services.
    pub(crate) fn of_endpoints(services: &[&ServiceRow], sort: SortKey) -> Self {
        let mut table = Self::new(&["NAMESPACE", "SERVICE", "ENDPOINT", "NAME", "NODE"]);
        let mut rows: Vec<(&ServiceRow, &EndpointRow)> = services
            .iter()
            .flat_map(|service| service.endpoints.iter().map(|endpoint| (*service, endpoint)))
            .collect();
        rows.sort_by(|(_, one), (_, other)| sort.compare(&one.rates, &other.rates));
        for (service, endpoint) in rows {
            let peer = endpoint.peer.clone().unwrap_or_default();
            let (address, name) = match endpoint.address {
                Some(address) => (
                    format!("{address}/{}", endpoint.protocol.as_str()),
                    peer.to_string(),
                ),
                None => ("-".to_owned(), "relayed by a process of the node".to_owned()),
            };
            let texts = vec![
                service.namespace.clone(),
                service.name.clone(),
                address,
                name,
                or_dash(&peer.node),
            ];
            table.push(texts, &endpoint.rates);
        }
        table
    }

    /// Returns the clients of Services.
    pub(crate) fn of_clients(services: &[&ServiceRow], sort: SortKey) -> Self {
        let mut table = Self::new(&["NAMESPACE", "SERVICE", "CLIENT", "NAME", "NODE"]);
        let mut rows: Vec<(&ServiceRow, &ClientRow)> = services
            .iter()
            .flat_map(|service| service.clients.iter().map(|client| (*service, client)))
            .collect();
        rows.sort_by(|(_, one), (_, other)| sort.compare(&one.rates, &other.rates));
        for (service, client) in rows {
            let texts = vec![
                service.namespace.clone(),
                service.name.clone(),
                client.address.to_string(),
                client.peer.to_string(),
                or_dash(&client.peer.node),
            ];
            table.push(texts, &client.rates);
        }
        table
    }

    /// Keeps the rows with a cell that contains the text.
    pub(crate) fn filter(&mut self, text: &str) {
        let text = text.to_lowercase();
        let texts = self.texts;
        self.rows.retain(|row| {
            let mut cells = row.iter().take(texts);
            text.is_empty() || cells.any(|cell| cell.to_lowercase().contains(&text))
        });
    }

    /// Renders the table. Numbers are aligned to the right.
    pub(crate) fn render(&self) -> String {
        let mut widths: Vec<usize> = self.titles.iter().map(|title| title.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let titles = self.titles.iter().map(|title| (*title).to_owned()).collect();
        let mut text = String::new();
        for row in std::iter::once(&titles).chain(&self.rows) {
            let cells = row.iter().zip(&widths).enumerate();
            let cells: Vec<String> = cells
                .map(|(column, (cell, width))| {
                    if self.is_number(column) {
                        format!("{cell:>width$}")
                    } else {
                        format!("{cell:<width$}")
                    }
                })
                .collect();
            text.push_str(cells.join("  ").trim_end());
            text.push('\n');
        }
        text
    }

    /// Returns true if a column contains numbers.
    pub(crate) fn is_number(&self, column: usize) -> bool {
        column >= self.texts && self.titles.get(column) != Some(&"FRONTENDS")
    }
}

/// Returns the Services in an order.
pub(crate) fn sorted_services(traffic: &ClusterTraffic, sort: SortKey) -> Vec<&ServiceRow> {
    let mut services: Vec<&ServiceRow> = traffic.services.iter().collect();
    services.sort_by(|one, other| sort.compare(&one.rates, &other.rates));
    services
}

/// Returns the numbers of a row, in the order of the titles.
fn numbers(rates: &Rates) -> [String; 6] {
    [
        rates.connections.to_string(),
        rate_text(rates.connections_per_second),
        byte_rate_text(rates.bytes_to_endpoints_per_second),
        byte_rate_text(rates.bytes_to_clients_per_second),
        rates.unanswered.to_string(),
        rates.refused.to_string(),
    ]
}

fn frontend(row: &FrontendRow) -> String {
    let frontend = &row.frontend;
    let protocol = frontend.protocol.as_str();
    match frontend.address {
        Some(address) => format!("{}/{protocol}", std::net::SocketAddr::new(address, frontend.port)),
        None => format!("*:{}/{protocol}", frontend.port),
    }
}

/// Returns a text, or a dash if it is empty.
pub(crate) fn or_dash(text: &str) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests;
