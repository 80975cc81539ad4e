//! IP addresses and CIDRs of the API. Old fields accept the lenient form, and new values need the strict one
//! (`StrictIPCIDRValidation`, VAL-27). Accepted values that are not canonical cause warnings (WRN-02).

use std::collections::HashSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::machinery::field::{FieldError, FieldErrors, Path};

/// IP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Returns the family of an address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Returns the family of the name `IPv4` or `IPv6`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "IPv4" => Some(Self::V4),
            "IPv6" => Some(Self::V6),
            _ => None,
        }
    }

    /// Returns the name in `ipFamilies`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// Returns the other family.
    pub fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Address in the lenient form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyIp {
    /// Address. An IPv4-mapped IPv6 address becomes its IPv4 address.
    pub address: IpAddr,
    /// True if the text is valid in the strict form: without leading zeros, not IPv4-mapped.
    pub is_strict: bool,
}

/// Parses an address in the lenient form, which allows leading zeros and IPv4-mapped IPv6.
pub fn parse_legacy(value: &str) -> Option<LegacyIp> {
    match value.parse::<IpAddr>() {
        Ok(address) => {
            let plain = to_ipv4_if_mapped(address);
            Some(LegacyIp {
                address: plain,
                is_strict: plain == address,
            })
        }
        Err(_) => {
            let address = without_leading_zeros(value)?.parse::<IpAddr>().ok()?;
            Some(LegacyIp {
                address: to_ipv4_if_mapped(address),
                is_strict: false,
            })
        }
    }
}

/// Returns the family of an address in the lenient form.
pub fn family_of(value: &str) -> Option<Family> {
    parse_legacy(value).map(|ip| Family::of(ip.address))
}

/// Validates an address in the strict form. Values of `existing` were accepted before and stay valid.
pub fn validate(path: &Path, value: &str, existing: &HashSet<&str>) -> FieldErrors {
    if existing.contains(value) {
        return Vec::new();
    }
    validate_new(path, value)
}

/// Validates an address of a field without old values in the strict form.
pub fn validate_new(path: &Path, value: &str) -> FieldErrors {
    let fault = strict_fault(value).map(|fault| FieldError::invalid(path, value, fault));
    fault.into_iter().collect()
}

/// Returns the broken rule of an address that must be strict and canonical, such as the name of an IPAddress
/// (CIDR-12).
pub fn canonical_fault(value: &str) -> Option<String> {
    if let Some(fault) = strict_fault(value) {
        return Some(fault.to_owned());
    }
    let canonical = parse_legacy(value)?.address.to_string();
    (canonical != value).then(|| format!("must be in canonical form (\"{canonical}\")"))
}

fn strict_fault(value: &str) -> Option<&'static str> {
    match parse_legacy(value) {
        None => Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
        Some(ip) if ip.is_strict => None,
        Some(_) if value.parse::<IpAddr>().is_err() => Some("must not have leading 0s"),
        Some(_) => Some("must not be an IPv4-mapped IPv6 address"),
    }
}

/// Validates the address of an endpoint or an external IP: not unspecified, loopback or link-local (VAL-33, EPV-04).
pub fn validate_endpoint(path: &Path, value: &str) -> FieldErrors {
    let Some(ip) = parse_legacy(value) else {
        return vec![FieldError::invalid(path, value, "must be a valid IP address")];
    };
    let (unspecified, loopback, link_local, link_local_multicast) = match ip.address {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            (
                v4.is_unspecified(),
                v4.is_loopback(),
                v4.is_link_local(),
                (a, b, c) == (224, 0, 0),
            )
        }
        IpAddr::V6(v6) => {
            let first = v6.segments()[0];
            (
                v6.is_unspecified(),
                v6.is_loopback(),
                first & 0xffc0 == 0xfe80,
                first & 0xff0f == 0xff02,
            )
        }
    };
    let mut faults = Vec::new();
    if unspecified {
        faults.push(format!("may not be unspecified ({value})"));
    }
    if loopback {
        faults.push("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    if link_local {
        faults.push("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if link_local_multicast {
        faults.push("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned());
    }
    faults
        .into_iter()
        .map(|fault| FieldError::invalid(path, value, fault))
        .collect()
}

/// CIDR in the lenient form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyCidr {
    /// Network with the address as written. An IPv4-mapped address becomes IPv4 if the prefix length allows it.
    pub net: IpNet,
    /// True if neither address nor length have leading zeros.
    pub without_leading_zeros: bool,
    /// True if the address was IPv4-mapped.
    pub is_mapped: bool,
}

/// Parses a CIDR in the lenient form, which allows leading zeros, IPv4-mapped IPv6 and host bits.
pub fn parse_legacy_cidr(value: &str) -> Option<LegacyCidr> {
    const LONGEST_PREFIX_DIGITS: usize = 3;
    let (address, length) = value.split_once('/')?;
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = length.trim_start_matches('0');
    if significant.len() > LONGEST_PREFIX_DIGITS {
        return None;
    }
    let bits: u8 = if significant.is_empty() {
        0
    } else {
        significant.parse().ok()?
    };
    let (parsed, clean) = match address.parse::<IpAddr>() {
        Ok(parsed) => (parsed, true),
        Err(_) => (without_leading_zeros(address)?.parse().ok()?, false),
    };
    let is_mapped = to_ipv4_if_mapped(parsed) != parsed;
    let net = match parsed {
        IpAddr::V6(v6) if is_mapped && (96..=128).contains(&bits) => {
            IpNet::new(IpAddr::V4(low_bits(v6)), bits - 96).ok()?
        }
        _ => IpNet::new(parsed, bits).ok()?,
    };
    let without_leading_zeros = clean && (length == "0" || !length.starts_with('0'));
    Some(LegacyCidr {
        net,
        without_leading_zeros,
        is_mapped,
    })
}

/// Validates a CIDR in the strict form. Values of `existing` were accepted before and stay valid (VAL-39).
pub fn validate_cidr(path: &Path, value: &str, existing: &HashSet<&str>) -> FieldErrors {
    if existing.contains(value) {
        return Vec::new();
    }
    validate_new_cidr(path, value)
}

/// Validates a CIDR of a field without old values in the strict form.
pub fn validate_new_cidr(path: &Path, value: &str) -> FieldErrors {
    let fault = match parse_legacy_cidr(value) {
        None => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        Some(cidr) if !cidr.without_leading_zeros => "must not have leading 0s in IP or prefix length",
        Some(cidr) if cidr.is_mapped => "must not have an IPv4-mapped IPv6 address",
        Some(cidr) if cidr.net.addr() != cidr.net.network() => {
            "must not have bits set beyond the prefix length"
        }
        Some(_) => return Vec::new(),
    };
    vec![FieldError::invalid(path, value, fault)]
}

/// Validates a CIDR of a field without old values: strict and canonical (CIDR-02).
pub fn validate_canonical_cidr(path: &Path, value: &str) -> FieldErrors {
    let faults = validate_new_cidr(path, value);
    if !faults.is_empty() {
        return faults;
    }
    match parse_legacy_cidr(value) {
        Some(cidr) if cidr.net.to_string() != value => {
            let fault = format!("must be in canonical form (\"{}\")", cidr.net);
            vec![FieldError::invalid(path, value, fault)]
        }
        _ => Vec::new(),
    }
}

/// Returns the warning for an accepted address that is not canonical (WRN-02).
pub fn warning(path: &Path, value: &str) -> Option<String> {
    let ip = parse_legacy(value)?;
    if !ip.is_strict {
        return Some(format!(
            "{path}: non-standard IP address \"{value}\" will be considered invalid in a future Kubernetes \
             release: use \"{}\"",
            ip.address
        ));
    }
    let canonical = ip
        .address
        .is_ipv6()
        .then(|| ip.address.to_string())
        .filter(|text| text != value)?;
    Some(format!(
        "{path}: IPv6 address \"{value}\" should be in RFC 5952 canonical format (\"{canonical}\")"
    ))
}

/// Warnings for an accepted CIDR that is not canonical (WRN-02).
pub fn cidr_warnings(path: &Path, value: &str) -> Vec<String> {
    let Some(cidr) = parse_legacy_cidr(value) else {
        return Vec::new();
    };
    let mut warnings = Vec::new();
    let network = cidr.net.trunc();
    if cidr.net.addr() != cidr.net.network() {
        let single = format!("{}/{}", cidr.net.addr(), cidr.net.max_prefix_len());
        warnings.push(format!(
            "{path}: CIDR value \"{value}\" is ambiguous in this context (should be \"{network}\" or \"{single}\"?)"
        ));
    }
    if !cidr.without_leading_zeros || cidr.is_mapped {
        warnings.push(format!(
            "{path}: non-standard CIDR value \"{value}\" will be considered invalid in a future Kubernetes \
             release: use \"{network}\""
        ));
    } else if cidr.net.addr().is_ipv6() && cidr.net.to_string() != value {
        warnings.push(format!(
            "{path}: IPv6 CIDR value \"{value}\" should be in RFC 5952 canonical format (\"{}\")",
            cidr.net
        ));
    }
    warnings
}

fn to_ipv4_if_mapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

fn low_bits(address: Ipv6Addr) -> Ipv4Addr {
    let octets = address.octets();
    Ipv4Addr::new(octets[12], octets[13], octets[14], octets[15])
}

/// Removes leading zeros from the parts of a dotted quad; `None` if the text contains no dotted quad.
fn without_leading_zeros(value: &str) -> Option<String> {
    let quad_at = value.rfind(':').map_or(0, |colon| colon + 1);
    let (head, quad) = value.split_at(quad_at);
    if !quad.contains('.') {
        return None;
    }
    let parts: Vec<&str> = quad
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            rest => rest,
        })
        .collect();
    Some(format!("{head}{}", parts.join(".")))
}

#[cfg(test)]
mod tests;
