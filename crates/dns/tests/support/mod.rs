//! Queries and decoded responses, with a decoder that shares no code with the server.

#![allow(dead_code, reason = "each test binary uses a part of this module")]

pub(crate) mod objects;

use std::net::{Ipv4Addr, Ipv6Addr};

/// A decoded response, its records as `owner TYPE value`, without TTLs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub id: u16,
    pub code: u16,
    pub authoritative: bool,
    pub truncated: bool,
    pub name: String,
    pub answer: Vec<String>,
    pub authority: Vec<String>,
    pub additional: Vec<String>,
    /// UDP size of the OPT record.
    pub edns: Option<u16>,
}

/// Numbers and names of types.
const TYPES: [(u16, &str); 14] = [
    (1, "A"),
    (2, "NS"),
    (5, "CNAME"),
    (6, "SOA"),
    (12, "PTR"),
    (15, "MX"),
    (16, "TXT"),
    (28, "AAAA"),
    (33, "SRV"),
    (65, "HTTPS"),
    (251, "IXFR"),
    (252, "AXFR"),
    (255, "ANY"),
    (257, "CAA"),
];

pub(crate) fn type_number(name: &str) -> u16 {
    TYPES
        .iter()
        .find(|(_, known)| *known == name)
        .unwrap_or_else(|| panic!("unknown type {name}"))
        .0
}

/// Encodes a query for class IN with recursion desired, and with an OPT record if `edns` is set.
pub(crate) fn question(id: u16, name: &str, kind: &str, edns: Option<u16>) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(edns.is_some())]);
    for label in name.split('.').filter(|label| !label.is_empty()) {
        message.push(u8::try_from(label.len()).expect("a label"));
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend(type_number(kind).to_be_bytes());
    message.extend([0, 1]);
    if let Some(size) = edns {
        message.extend([0, 0, 41]);
        message.extend(size.to_be_bytes());
        message.extend([0; 6]);
    }
    message
}

pub(crate) fn decode(message: &[u8]) -> Decoded {
    let word = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    let flags = word(2);
    assert_eq!(flags & 0x8000, 0x8000, "an answer");
    let mut decoded = Decoded {
        id: word(0),
        code: flags & 15,
        authoritative: flags & 0x400 != 0,
        truncated: flags & 0x200 != 0,
        ..Decoded::default()
    };
    let mut at = 12;
    for _ in 0..word(4) {
        (decoded.name, at) = name(message, at);
        at += 4;
    }
    for (section, count) in [(0, word(6)), (1, word(8)), (2, word(10))] {
        for _ in 0..count {
            let (row, behind) = record(message, at, &mut decoded.edns);
            at = behind;
            match section {
                0 => decoded.answer.extend(row),
                1 => decoded.authority.extend(row),
                _ => decoded.additional.extend(row),
            }
        }
    }
    assert_eq!(at, message.len(), "no bytes follow the last record");
    decoded
}

fn record(message: &[u8], at: usize, edns: &mut Option<u16>) -> (Option<String>, usize) {
    let (owner, at) = name(message, at);
    let word = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    let (kind, length, start) = (word(at), usize::from(word(at + 8)), at + 10);
    let data = &message[start..start + length];
    let value = match kind {
        1 => Ipv4Addr::from(<[u8; 4]>::try_from(data).expect("four octets")).to_string(),
        28 => Ipv6Addr::from(<[u8; 16]>::try_from(data).expect("sixteen octets")).to_string(),
        2 | 5 | 12 => lower_name(message, start, start + length),
        33 => format!(
            "{} {}",
            word(start + 4),
            lower_name(message, start + 6, start + length)
        ),
        6 => "soa".to_owned(),
        16 => String::from_utf8_lossy(&data[1..1 + usize::from(data[0])]).into_owned(),
        41 => {
            *edns = Some(word(at + 2));
            return (None, start + length);
        }
        other => panic!("a record of type {other}"),
    };
    let (_, kind) = TYPES
        .iter()
        .find(|(number, _)| *number == kind)
        .expect("a known type");
    (
        Some(format!("{} {kind} {value}", owner.to_lowercase())),
        start + length,
    )
}

fn lower_name(message: &[u8], at: usize, end: usize) -> String {
    let (name, behind) = name(message, at);
    assert_eq!(behind, end, "the name fills the data");
    name.to_lowercase()
}

/// Reads the name at `at` with its case, and returns its end.
fn name(message: &[u8], mut at: usize) -> (String, usize) {
    let (mut text, mut end) = (String::new(), None);
    loop {
        let length = usize::from(message[at]);
        if length >= 0xC0 {
            end = end.or(Some(at + 2));
            let target = (length & 0x3F) << 8 | usize::from(message[at + 1]);
            assert!(target < at, "pointers point backwards");
            at = target;
        } else if length == 0 {
            return (
                if text.is_empty() { ".".to_owned() } else { text },
                end.unwrap_or(at + 1),
            );
        } else {
            text.push_str(&String::from_utf8_lossy(&message[at + 1..at + 1 + length]));
            text.push('.');
            at += 1 + length;
        }
    }
}
