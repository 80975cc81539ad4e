//! Parsers of addresses and ranges in the notations that older objects may contain.

use std::net::IpAddr;

use ipnet::IpNet;

/// Parses an address. Octets of IPv4 may have leading zeros, which count as decimal. Objects from before the stricter
/// rule must continue to work (VAL rules of address fields).
pub(crate) fn parse_address(text: &str) -> Option<IpAddr> {
    text.parse()
        .ok()
        .or_else(|| without_leading_zeros(text)?.parse().ok())
}

/// Parses a range with the same leniency; host bits are dropped.
pub(crate) fn parse_range(text: &str) -> Option<IpNet> {
    let (address, length) = text.trim().split_once('/')?;
    IpNet::new(parse_address(address)?, length.parse().ok()?)
        .ok()
        .map(|net| net.trunc())
}

fn without_leading_zeros(text: &str) -> Option<String> {
    const OCTET_DIGITS_MAX: usize = 16;
    let octets: Vec<&str> = text
        .split('.')
        .map(|octet| match octet.trim_start_matches('0') {
            "" if !octet.is_empty() => "0",
            digits => digits,
        })
        .collect();
    let sane = octets.len() == 4 && octets.iter().all(|octet| octet.len() < OCTET_DIGITS_MAX);
    sane.then(|| octets.join("."))
}

#[cfg(test)]
mod tests;
