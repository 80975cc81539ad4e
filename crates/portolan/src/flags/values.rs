//! Parsers of the values of flags.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use api::names::dns_subdomain;
use ipnet::IpNet;
use proxy::configuration::{GoDuration, ParseDurationError, require_one_per_family};

use crate::error::{InvalidValue, UsageError};

pub(crate) use proxy::configuration::parse_cidr as cidr;

/// Data directory of `up` and `join`, and of the commands that read it.
pub(crate) const DATA_DIRECTORY: &str = "/var/lib/portolan";

/// Address of NodeLocal DNSCache on each node (DNS-30).
pub(crate) const NODE_LOCAL_DNS_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 20, 10));
/// Port of the agent's endpoint for the API server (upstream's).
pub(crate) const AGENT_PORT: u16 = 10250;

/// Listen address, or no address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OptionalAddress(pub Option<SocketAddr>);

/// Parses `ADDRESS:PORT`, or an empty text.
///
/// # Errors
///
/// [`InvalidValue`] if the text is neither.
pub(crate) fn optional_address(text: &str) -> Result<OptionalAddress, InvalidValue> {
    if text.is_empty() {
        return Ok(OptionalAddress(None));
    }
    let address = text
        .parse()
        .map_err(|_| InvalidValue::new(text, "ADDRESS:PORT, for example 0.0.0.0:9153"))?;
    Ok(OptionalAddress(Some(address)))
}

/// Parses `ADDRESS:PORT`.
///
/// # Errors
///
/// [`InvalidValue`] if the text has another form.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, InvalidValue> {
    text.parse()
        .map_err(|_| InvalidValue::new(text, "ADDRESS:PORT, for example 0.0.0.0:6443 or [::]:6443"))
}

/// Port range with both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortRange {
    /// First port.
    pub first: u16,
    /// Last port.
    pub last: u16,
}

/// Parses `FIRST-LAST`, or `FIRST+N` for N more ports, as upstream does.
///
/// # Errors
///
/// [`InvalidValue`] if the text has another form, or the range is empty or contains port 0.
pub(crate) fn port_range(text: &str) -> Result<PortRange, InvalidValue> {
    let invalid = || InvalidValue::new(text, "a port range FIRST-LAST, for example 30000-32767");
    let port = |text: &str| text.trim().parse::<u16>().map_err(|_| invalid());
    let (first, last) = if let Some((first, more)) = text.split_once('+') {
        let first = port(first)?;
        (first, first.checked_add(port(more)?).ok_or_else(invalid)?)
    } else {
        let (first, last) = text.split_once('-').ok_or_else(invalid)?;
        (port(first)?, port(last)?)
    };
    if first == 0 || first > last {
        return Err(invalid());
    }
    Ok(PortRange { first, last })
}

/// Parses a duration in Go's notation: `500ms`, `1.5s`, `2m`, `1h30m`, or `0`.
///
/// # Errors
///
/// [`ParseDurationError`] if the text is not a duration.
pub(crate) fn duration(text: &str) -> Result<Duration, ParseDurationError> {
    text.parse().map(|GoDuration(duration)| duration)
}

/// Parses `KEY=VALUE`.
///
/// # Errors
///
/// [`InvalidValue`] if the text has no `=` or an empty key.
pub(crate) fn label(text: &str) -> Result<(String, String), InvalidValue> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(InvalidValue::new(
            text,
            "KEY=VALUE, for example topology.kubernetes.io/zone=zone-a",
        )),
    }
}

/// Parses the name of a Node. As upstream, the parser accepts capital letters. Later, lower-case letters replace them.
///
/// # Errors
///
/// [`InvalidValue`] if the text is not an RFC 1123 subdomain.
pub(crate) fn node_name(text: &str) -> Result<String, InvalidValue> {
    if dns_subdomain(&text.trim().to_ascii_lowercase()).is_empty() {
        return Ok(text.to_owned());
    }
    Err(InvalidValue::new(
        text,
        "the name of a Node: letters, digits, \"-\" and \".\", for example node-1.example.com",
    ))
}

/// Parses the URL of an API server.
///
/// # Errors
///
/// [`InvalidValue`] if the text is not an https URL with a host and nothing after the port.
pub(crate) fn server_url(text: &str) -> Result<String, InvalidValue> {
    let invalid = || {
        InvalidValue::new(
            text,
            "the URL of an API server, for example https://192.0.2.1:6443",
        )
    };
    let uri: http::Uri = text.trim_end_matches('/').parse().map_err(|_| invalid())?;
    let has_path = !matches!(uri.path(), "" | "/") || uri.query().is_some();
    match (uri.scheme_str(), uri.host()) {
        (Some("https"), Some(_)) if !has_path => Ok(text.to_owned()),
        _ => Err(invalid()),
    }
}

/// Requires at most one CIDR per IP family, and at least one.
///
/// # Errors
///
/// [`UsageError`] that names the flag.
pub(crate) fn one_per_family(cidrs: &[IpNet], flag: &str) -> Result<(), UsageError> {
    require_one_per_family(cidrs).map_err(|error| UsageError(format!("{flag} {error}")))
}

/// Returns the name of this host, in lower case as Node names are (KPF-09).
pub(crate) fn hostname() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
