//! Port ranges of a Service: the annotation `service.portolan.dev/port-ranges`.
//!
//! The value is a list of ranges, separated by commas: `5060-5160/UDP,7000/TCP`. The default protocol of a range is
//! TCP, as in `spec.ports`. `all` means every port of TCP, UDP and SCTP, and `all/UDP` every port of one protocol.

use std::fmt;

use api::object::Protocol;

/// Annotation with the port ranges of a Service.
pub const PORT_RANGES_ANNOTATION: &str = "service.portolan.dev/port-ranges";

/// Maximum number of ranges in one annotation: enough for the protocols of one application, each with several ranges.
pub const PORT_RANGES_MAX: usize = 128;

/// Maximum number of elements of the ranges of a Service: ranges times addresses, and at load balancer IPs times source
/// ranges. The kernel copies the elements of all Services with each change of one.
pub(crate) const RANGE_ELEMENTS_MAX: usize = 4_096;

/// Protocols of ranges, in the order of [`PortRanges::of`].
pub(crate) const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// Consecutive ports, from 1 to 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortRange {
    first: u16,
    last: u16,
}

/// Port ranges of a Service; those of one protocol are sorted and do not overlap or touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortRanges(Box<[(Protocol, PortRange)]>);

impl PortRange {
    /// Every port.
    pub const ALL: Self = Self {
        first: 1,
        last: u16::MAX,
    };

    /// Creates a range; `None` if it is empty or contains port 0.
    pub fn new(first: u16, last: u16) -> Option<Self> {
        (first != 0 && first <= last).then_some(Self { first, last })
    }

    /// Returns the first port.
    pub fn first(self) -> u16 {
        self.first
    }

    /// Returns the last port.
    pub fn last(self) -> u16 {
        self.last
    }

    /// Returns true if the range contains a port.
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// Returns true if both ranges contain some port.
    pub fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Parses `FIRST-LAST`, a single port, or `all`.
    fn parse(text: &str) -> Option<Self> {
        if text == "all" {
            return Some(Self::ALL);
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Self::new(parse_port(first)?, parse_port(last)?)
    }
}

impl PortRanges {
    /// Parses the value of the annotation; `None` if a range is invalid, or if there are no ranges or too many.
    pub fn parse(text: &str) -> Option<Self> {
        let mut found = Vec::new();
        for (index, item) in text.split(',').enumerate() {
            if index == PORT_RANGES_MAX {
                return None;
            }
            let (range, protocol) = match item.trim().split_once('/') {
                Some((range, name)) => (range, Some(protocol_named(name)?)),
                None => (item.trim(), None),
            };
            let is_whole_address = range == "all" && protocol.is_none();
            let range = PortRange::parse(range)?;
            if is_whole_address {
                found.extend(PROTOCOLS.map(|protocol| (protocol, range)));
            } else {
                found.push((protocol.unwrap_or_default(), range));
            }
        }
        Some(Self(sort_and_merge(found).into()))
    }

    /// Returns true if there are no ranges.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the ranges of a protocol, sorted.
    pub fn of(&self, protocol: Protocol) -> impl Iterator<Item = PortRange> + '_ {
        self.0
            .iter()
            .filter(move |(of, _)| *of == protocol)
            .map(|(_, range)| *range)
    }

    /// Returns all ranges.
    pub fn iter(&self) -> impl Iterator<Item = (Protocol, PortRange)> + '_ {
        self.0.iter().copied()
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

/// Parses a port without a sign.
fn parse_port(text: &str) -> Option<u16> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn protocol_named(name: &str) -> Option<Protocol> {
    PROTOCOLS.into_iter().find(|protocol| protocol.as_str() == name)
}

/// Sorts ranges, and joins those of a protocol that overlap or touch.
fn sort_and_merge(mut ranges: Vec<(Protocol, PortRange)>) -> Vec<(Protocol, PortRange)> {
    ranges.sort_unstable();
    ranges.dedup_by(|(protocol, later), (kept_protocol, kept)| {
        let joins = protocol == kept_protocol && later.first <= kept.last.saturating_add(1);
        if joins {
            kept.last = kept.last.max(later.last);
        }
        joins
    });
    ranges
}

#[cfg(test)]
mod tests;
