//! Values of flags, parsed once at the edge.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;

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

/// Parses one CIDR; host bits are not allowed, since they most often are a mistake.
pub fn cidr(text: &str) -> Result<IpNet, String> {
    let net: IpNet = text
        .trim()
        .parse()
        .map_err(|_| format!("{text:?} is not a CIDR; an example is 10.96.0.0/16"))?;
    if net.trunc() != net {
        return Err(format!(
            "{text:?} has bits set behind the prefix; did you mean {}?",
            net.trunc()
        ));
    }
    Ok(net)
}

/// Parses a duration as Go writes it: `500ms`, `1.5s`, `2m`, `1h30m`, or `0`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wanted = || format!("{text:?} is not a duration; examples are 500ms, 15s and 1m30s");
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(wanted());
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wanted)?;
        let (number, behind) = rest.split_at(digits);
        let letters = behind
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            _ => return Err(wanted()),
        };
        let number: f64 = number.parse().map_err(|_| wanted())?;
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| wanted())?;
        total = total.checked_add(part).ok_or_else(wanted)?;
        rest = behind;
    }
    Ok(total)
}

/// The CIDRs of a list are one, or two of different families.
pub fn at_most_one_a_family(nets: &[IpNet], flag: &str) -> Result<(), BadValue> {
    let count = |v4: bool| nets.iter().filter(|net| net.addr().is_ipv4() == v4).count();
    if nets.is_empty() || count(true) > 1 || count(false) > 1 {
        return Err(BadValue(format!(
            "{flag} takes one CIDR, or one IPv4 and one IPv6 CIDR separated by a comma"
        )));
    }
    Ok(())
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
