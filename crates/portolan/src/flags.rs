//! Values of flags, parsed once at the edge.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;
use proxy::configuration::{GoDuration, ParseDurationError, require_one_per_family};

pub use proxy::configuration::parse_cidr as cidr;

/// A flag's value that cannot be used, found after parsing; ends the program like those found by parsing.
#[derive(Debug, PartialEq, Eq)]
pub struct BadValue(pub String);

impl std::fmt::Display for BadValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (see portolan --help)", self.0)
    }
}

impl std::error::Error for BadValue {}

/// An address to listen on, or none.
#[derive(Clone, Copy, Debug)]
pub struct OptionalAddress(pub Option<SocketAddr>);

/// Parses `ADDRESS:PORT`, or nothing.
pub fn optional_address(text: &str) -> Result<OptionalAddress, String> {
    if text.is_empty() {
        return Ok(OptionalAddress(None));
    }
    let address = text
        .parse()
        .map_err(|_| format!("{text:?} is not ADDRESS:PORT; an example is 0.0.0.0:9153"))?;
    Ok(OptionalAddress(Some(address)))
}

/// A range of ports, both ends included, written `A-B`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

/// Parses `A-B`, or `A+N` for N further ports, as upstream does.
pub fn port_range(text: &str) -> Result<PortRange, String> {
    let wanted = || format!("{text:?} is not a port range; write it as FIRST-LAST, for example 30000-32767");
    let (first, last) = if let Some((first, more)) = text.split_once('+') {
        let first: u16 = first.trim().parse().map_err(|_| wanted())?;
        let more: u16 = more.trim().parse().map_err(|_| wanted())?;
        (first, first.checked_add(more).ok_or_else(wanted)?)
    } else {
        let (first, last) = text.split_once('-').ok_or_else(wanted)?;
        (
            first.trim().parse().map_err(|_| wanted())?,
            last.trim().parse().map_err(|_| wanted())?,
        )
    };
    if first == 0 || first > last {
        return Err(wanted());
    }
    Ok(PortRange { first, last })
}

/// Parses a duration in Go's notation: `500ms`, `1.5s`, `2m`, `1h30m`, or `0`.
///
/// # Errors
///
/// An error if the text is not a duration.
pub fn duration(text: &str) -> Result<Duration, ParseDurationError> {
    text.parse().map(|GoDuration(duration)| duration)
}

/// Requires one CIDR, or one of each IP family.
///
/// # Errors
///
/// A [`BadValue`] that names the flag.
pub fn at_most_one_a_family(nets: &[IpNet], flag: &str) -> Result<(), BadValue> {
    require_one_per_family(nets).map_err(|error| BadValue(format!("{flag} {error}")))
}

/// This machine's name, in lower case as Node names are (KPF-09).
pub fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
