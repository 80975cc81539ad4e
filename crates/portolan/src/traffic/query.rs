//! Query of a node's report, as the parameters of a URL.

use std::time::Duration;

use api::object::{ObjectKey, Protocol};
use explain::traffic::{Limits, RowSelection, Selection};
use ipnet::IpNet;

use super::reader::ReportRequest;

/// Shortest interval: shorter ones read connection tracking too often.
pub const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Longest interval: a request waits for its end.
pub const INTERVAL_MAX: Duration = Duration::from_secs(60);
/// Single flows of a report, at most.
pub const ROWS_MAX: usize = 10_000;
/// Ranges of clients, at most: a Pod or Node has a few addresses.
const CLIENTS_MAX: usize = 32;
/// Interval without a parameter.
const INTERVAL_DEFAULT: Duration = Duration::from_secs(1);

/// Query of a node's report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Time between the two samples.
    pub interval: Duration,
    /// Services.
    pub selection: Selection,
    /// Single flows.
    pub rows: RowSelection,
}

/// Parameter that is not valid. A retry does not help.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("parameter {name}={value:?} is not {expected}")]
pub struct InvalidParameter {
    name: String,
    value: String,
    expected: &'static str,
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
    /// Returns the rows of the report.
    pub fn request(&self) -> ReportRequest {
        ReportRequest {
            limits: Limits::default(),
            rows: self.rows.clone(),
        }
    }

    /// Returns the query of a URL.
    pub fn to_text(&self) -> String {
        let mut parameters = vec![("intervalMilliseconds", self.interval.as_millis().to_string())];
        match &self.selection {
            Selection::All => {}
            Selection::Namespace(namespace) => parameters.push(("namespace", namespace.clone())),
            Selection::Service(key) => {
                parameters.push(("namespace", key.namespace.to_string()));
                parameters.push(("service", key.name.to_string()));
            }
        }
        if self.rows.rows_max > 0 {
            parameters.push(("rows", self.rows.rows_max.to_string()));
            let clients = self.rows.clients.iter();
            parameters.extend(clients.map(|client| ("client", client.to_string())));
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

    /// Reads parameters, which are already unescaped. Unknown ones are ignored, as the API server does.
    ///
    /// # Errors
    ///
    /// [`InvalidParameter`] if a value is not valid or out of range.
    pub fn parse<'a>(
        parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, InvalidParameter> {
        let mut query = Self::default();
        let (mut namespace, mut service) = (String::new(), String::new());
        for (name, value) in parameters {
            let invalid = |expected| InvalidParameter {
                name: name.to_owned(),
                value: value.to_owned(),
                expected,
            };
            match name {
                "intervalMilliseconds" => query.interval = interval(value).ok_or_else(|| invalid(INTERVAL))?,
                "namespace" => namespace = plain(value).ok_or_else(|| invalid(NAME))?,
                "service" => service = plain(value).ok_or_else(|| invalid(NAME))?,
                "rows" => {
                    let rows = value.parse().ok().filter(|rows| *rows <= ROWS_MAX);
                    query.rows.rows_max = rows.ok_or_else(|| invalid("a number up to 10000"))?;
                }
                "client" => {
                    let net: IpNet = value.parse().map_err(|_| invalid("a CIDR, such as 10.244.1.9/32"))?;
                    query.rows.clients.push(net);
                    if query.rows.clients.len() > CLIENTS_MAX {
                        return Err(invalid("one of at most 32 clients"));
                    }
                }
                "protocol" => query.rows.protocol = Some(protocol(value).ok_or_else(|| invalid(PROTOCOL))?),
                _ => {}
            }
        }
        query.selection = match (namespace.as_str(), service.as_str()) {
            ("", "") => Selection::All,
            (_, "") => Selection::Namespace(namespace),
            ("", _) => Selection::Service(ObjectKey::new("default", &service)),
            _ => Selection::Service(ObjectKey::new(&namespace, &service)),
        };
        Ok(query)
    }
}

const INTERVAL: &str = "a number of milliseconds from 100 to 60000";
const NAME: &str = "the name of an object";
const PROTOCOL: &str = "TCP, UDP or SCTP";
/// Longest name of a Service or namespace (RFC 1123 label).
const NAME_BYTES_MAX: usize = 63;

fn interval(value: &str) -> Option<Duration> {
    let interval = Duration::from_millis(value.parse().ok()?);
    (INTERVAL_MIN..=INTERVAL_MAX).contains(&interval).then_some(interval)
}

fn plain(value: &str) -> Option<String> {
    let is_plain = value.len() <= NAME_BYTES_MAX
        && value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    is_plain.then(|| value.to_owned())
}

/// Returns the protocol with a name, in upper or lower case.
pub fn protocol(value: &str) -> Option<Protocol> {
    [Protocol::Tcp, Protocol::Udp, Protocol::Sctp]
        .into_iter()
        .find(|protocol| protocol.as_str().eq_ignore_ascii_case(value))
}

#[cfg(test)]
mod tests;
