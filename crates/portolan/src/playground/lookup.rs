//! A minimal DNS client for the checks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use testbed::{Cluster, exchange_udp};

use super::manifests::DNS_CLUSTER_IP;
use crate::error::CommandError;

/// Record types of the checks (RFC 1035 section 3.2.2, RFC 3596).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordType {
    /// IPv4 address.
    A = 1,
    /// Canonical name of an alias.
    Cname = 5,
    /// IPv6 address.
    Aaaa = 28,
}

/// Queries the DNS Service of the cluster from a member, and returns the data of the records of a type.
///
/// # Errors
///
/// An error if there is no response within a second, or it is malformed.
pub(super) fn lookup(
    cluster: &Cluster,
    from: &str,
    name: &str,
    kind: RecordType,
) -> Result<Vec<String>, CommandError> {
    const ID: u16 = 0x706f;
    const TIMEOUT: Duration = Duration::from_secs(1);
    let mut query = Vec::new();
    for word in [ID, 0x0100, 1, 0, 0, 0] {
        query.extend_from_slice(&u16::to_be_bytes(word));
    }
    for label in name.trim_end_matches('.').split('.') {
        query.push(u8::try_from(label.len())?);
        query.extend_from_slice(label.as_bytes());
    }
    query.push(0);
    query.extend_from_slice(&(kind as u16).to_be_bytes());
    query.extend_from_slice(&1u16.to_be_bytes());
    let server: SocketAddr = (DNS_CLUSTER_IP.parse::<IpAddr>()?, 53).into();
    let response = exchange_udp(cluster.member(from)?, server, &query, TIMEOUT)?;
    read(&response, kind).ok_or_else(|| format!("malformed DNS response for {name}").into())
}

fn read(response: &[u8], kind: RecordType) -> Option<Vec<String>> {
    let count = u16_at(response, 6)?;
    let mut at = skip_name(response, 12)? + 4;
    let mut found = Vec::new();
    for _ in 0..count {
        at = skip_name(response, at)?;
        let (record_type, length) = (u16_at(response, at)?, usize::from(u16_at(response, at + 8)?));
        let data = response.get(at + 10..at + 10 + length)?;
        if record_type == kind as u16 {
            found.push(match kind {
                RecordType::A => Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).to_string(),
                RecordType::Aaaa => Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).to_string(),
                RecordType::Cname => read_name(response, at + 10)?,
            });
        }
        at += 10 + length;
    }
    found.sort();
    Some(found)
}

fn u16_at(response: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(response.get(at..at + 2)?.try_into().ok()?))
}

/// Returns the offset after a name (RFC 1035 section 4.1.4).
fn skip_name(response: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *response.get(at)? {
            0 => return Some(at + 1),
            length if length & 0xc0 == 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

fn read_name(response: &[u8], mut at: usize) -> Option<String> {
    const LABELS_MAX: usize = 128;
    let mut labels = Vec::new();
    for _ in 0..LABELS_MAX {
        match *response.get(at)? {
            0 => return Some(labels.join(".")),
            length if length & 0xc0 == 0xc0 => at = usize::from(u16_at(response, at)? & 0x3fff),
            length => {
                let end = at + 1 + usize::from(length);
                labels.push(String::from_utf8_lossy(response.get(at + 1..end)?).into_owned());
                at = end;
            }
        }
    }
    None
}
