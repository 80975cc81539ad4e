//! A small DNS question, for the checks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use testbed::{Cluster, exchange_udp};

use super::manifests::DNS_CLUSTER_IP;
use crate::commands::Failure;

/// Record types that the checks ask for (RFC 1035 section 3.2.2, RFC 3596).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordType {
    /// An IPv4 address.
    A = 1,
    /// An alias.
    Cname = 5,
    /// An IPv6 address.
    Aaaa = 28,
}

/// Asks the cluster's DNS Service from a member; the data of the records of that type in the answer.
pub fn lookup(cluster: &Cluster, from: &str, name: &str, kind: RecordType) -> Result<Vec<String>, Failure> {
    const ID: u16 = 0x706f;
    const TIMEOUT: Duration = Duration::from_secs(1);
    let mut question = Vec::new();
    for word in [ID, 0x0100, 1, 0, 0, 0] {
        question.extend_from_slice(&u16::to_be_bytes(word));
    }
    for label in name.trim_end_matches('.').split('.') {
        question.push(u8::try_from(label.len())?);
        question.extend_from_slice(label.as_bytes());
    }
    question.push(0);
    question.extend_from_slice(&(kind as u16).to_be_bytes());
    question.extend_from_slice(&1u16.to_be_bytes());
    let server: SocketAddr = (DNS_CLUSTER_IP.parse::<IpAddr>()?, 53).into();
    let answer = exchange_udp(cluster.member(from)?, server, &question, TIMEOUT)?;
    read(&answer, kind).ok_or_else(|| format!("DNS: the answer for {name} cannot be read").into())
}

fn read(answer: &[u8], kind: RecordType) -> Option<Vec<String>> {
    let count = word(answer, 6)?;
    let mut at = skip_name(answer, 12)? + 4;
    let mut found = Vec::new();
    for _ in 0..count {
        at = skip_name(answer, at)?;
        let (record_type, length) = (word(answer, at)?, usize::from(word(answer, at + 8)?));
        let data = answer.get(at + 10..at + 10 + length)?;
        if record_type == kind as u16 {
            found.push(match kind {
                RecordType::A => Ipv4Addr::from(<[u8; 4]>::try_from(data).ok()?).to_string(),
                RecordType::Aaaa => Ipv6Addr::from(<[u8; 16]>::try_from(data).ok()?).to_string(),
                RecordType::Cname => read_name(answer, at + 10)?,
            });
        }
        at += 10 + length;
    }
    found.sort();
    Some(found)
}

fn word(answer: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(answer.get(at..at + 2)?.try_into().ok()?))
}

/// The offset behind the name at `at` (RFC 1035 section 4.1.4).
fn skip_name(answer: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *answer.get(at)? {
            0 => return Some(at + 1),
            length if length & 0xc0 == 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

fn read_name(answer: &[u8], mut at: usize) -> Option<String> {
    const LABELS_MAX: usize = 128;
    let mut labels = Vec::new();
    for _ in 0..LABELS_MAX {
        match *answer.get(at)? {
            0 => return Some(labels.join(".")),
            length if length & 0xc0 == 0xc0 => at = usize::from(word(answer, at)? & 0x3fff),
            length => {
                let end = at + 1 + usize::from(length);
                labels.push(String::from_utf8_lossy(answer.get(at + 1..end)?).into_owned());
                at = end;
            }
        }
    }
    None
}
