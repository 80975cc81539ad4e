//! Query of a node's report, as the parameters of a URL.

use std::time::Duration;

use agent::server::reports::{ReportError, ReportRequest};
use api::object::Protocol;
use explain::traffic::{Limits, RowSelection, Selection};
use ipnet::IpNet;

use super::reader::ReportRows;

/// Shortest interval: shorter ones read connection tracking too often.
pub(crate) const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Longest interval: a request waits for its end, and the API server ends requests for reports after 30 s.
pub(crate) const INTERVAL_MAX: Duration = Duration::from_secs(20);
/// Maximum number of single flows in a report, which bounds its size.
pub(crate) const ROWS_MAX: usize = 10_000;
/// Separator of clients. The API server passes on no comma.
const SEPARATOR: &str = "_";
/// Maximum number of ranges of clients: a Pod or Node has a few addresses.
const CLIENTS_MAX: usize = 32;
/// Maximum number of Services in a report with single flows, which bounds its size.
const SERVICES_WITH_ROWS_MAX: usize = 1_000;
/// Interval without a parameter.
const INTERVAL_DEFAULT: Duration = Duration::from_secs(1);

/// Query of a node's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    /// Time between the two samples.
    pub interval: Duration,
    /// Services.
    pub selection: Selection,
    /// Single flows.
    pub rows: RowSelection,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            interval: INTERVAL_DEFAULT,
            selection: Selection::All,
            rows: RowSelection::default(),
        }
    }
}

impl Query {
    /// Returns the rows of the report. A report with single flows has no clients and endpoints, so that it stays below the
    /// limit of the API server.
    pub(crate) fn rows(&self) -> ReportRows {
        let limits = if self.rows.rows_max == 0 {
            Limits::default()
        } else {
            Limits {
                services: SERVICES_WITH_ROWS_MAX,
                endpoints: 0,
                clients: 0,
                ..Limits::default()
            }
        };
        ReportRows {
            limits,
            flows: self.rows.clone(),
        }
    }

    /// Returns the query of a URL.
    pub(crate) fn to_text(&self) -> String {
        let mut parameters = vec![("intervalMilliseconds", self.interval.as_millis().to_string())];
        match &self.selection {
            Selection::All => {}
            Selection::Namespace(namespace) => parameters.push(("namespace", namespace.clone())),
            Selection::Service(key) => {
                parameters.push(("service", key.to_string()));
            }
        }
        if self.rows.rows_max > 0 {
            parameters.push(("rows", self.rows.rows_max.to_string()));
            let clients: Vec<String> = self.rows.clients.iter().map(IpNet::to_string).collect();
            if !clients.is_empty() {
                parameters.push(("client", clients.join(SEPARATOR)));
            }
            let protocol = self.rows.protocol.map(|protocol| protocol.as_str().to_owned());
            parameters.extend(protocol.map(|protocol| ("protocol", protocol)));
        }
        let mut text = String::new();
        for (name, value) in parameters {
            if !text.is_empty() {
                text.push('&');
            }
            text.push_str(name);
            text.push('=');
            client::push_escaped(&mut text, &value);
        }
        text
    }

    /// Reads the parameters of a request.
    ///
    /// # Errors
    ///
    /// [`ReportError::Parameter`] if a value is not valid or out of range.
    pub(crate) fn parse(request: &ReportRequest) -> Result<Self, ReportError> {
        let mut query = Self::default();
        if let Some(text) = request.text("intervalMilliseconds") {
            query.interval = interval(text).ok_or(invalid("intervalMilliseconds", INTERVAL))?;
        }
        if let Some(text) = request.text("rows") {
            let rows = text.parse().ok().filter(|rows| *rows <= ROWS_MAX);
            query.rows.rows_max = rows.ok_or(invalid("rows", "a number up to 10000"))?;
        }
        if let Some(text) = request.text("client") {
            let clients = text.split(SEPARATOR).map(|client| client.parse::<IpNet>().ok());
            let clients = clients.take(CLIENTS_MAX + 1).collect::<Option<Vec<IpNet>>>();
            let clients = clients.filter(|clients| clients.len() <= CLIENTS_MAX);
            query.rows.clients = clients.ok_or(invalid("client", "at most 32 CIDRs, separated by _"))?;
        }
        if let Some(text) = request.text("protocol") {
            query.rows.protocol = Some(protocol(text).ok_or(invalid("protocol", "TCP, UDP or SCTP"))?);
        }
        query.selection = match (request.key("service")?, request.text("namespace")) {
            (Some(key), _) => Selection::Service(key),
            (None, Some(namespace)) => Selection::Namespace(namespace.to_owned()),
            (None, None) => Selection::All,
        };
        Ok(query)
    }
}

fn invalid(name: &'static str, expected: &'static str) -> ReportError {
    ReportError::Parameter { name, expected }
}

/// Valid intervals.
const INTERVAL: &str = "a number of milliseconds from 100 to 20000";

fn interval(value: &str) -> Option<Duration> {
    let interval = Duration::from_millis(value.parse().ok()?);
    (INTERVAL_MIN..=INTERVAL_MAX)
        .contains(&interval)
        .then_some(interval)
}

/// Returns the protocol with a name, in upper or lower case.
pub(crate) fn protocol(value: &str) -> Option<Protocol> {
    [Protocol::Tcp, Protocol::Udp, Protocol::Sctp]
        .into_iter()
        .find(|protocol| protocol.as_str().eq_ignore_ascii_case(value))
}

#[cfg(test)]
mod tests;
