//! Messages between announcers: one UDP datagram each, authenticated with a key that only its sender and its
//! receiver can derive ([`crate::protocol::keys`]).
//!
//! Wire format of version 3 (numbers are big-endian, sizes in bytes in parentheses):
//!
//! | Field | Size |
//! |---|---|
//! | magic `PLA3` | 4 |
//! | tag: HMAC-SHA-256 of the magic and of all that follows, truncated | 16 |
//! | names of sender and receiver, each with its length | 1 + length |
//! | incarnation, timestamp, epoch, lowest epoch that the sender grants votes to | 8 each |
//! | flags | 1 |
//! | echo, if its flag is set: incarnation and timestamp of the last message of the receiver | 8 each |
//! | generation of the vote lease, if its flag is set | 8 |
//! | number of entries, then per entry: kind, address family (4 or 6), address | 2, then 1 + 1 + 4 or 16 |
//! | capabilities: flags, number of missing link sets, their identifiers | 1 + 1 + 8 each |
//! | number of link addresses, then per address: family, address, Ethernet address | 1, then 1 + 4 or 16 + 6 |
//! | bit set over the entries, lowest bit first: this released vote is of an address that the sender announced until then | 4 |
//!
//! Receivers ignore trailing bytes and unknown flags, which later versions may add. Versions 1 and 2 used one
//! key for all members; they are neither sent nor accepted.

use std::net::{IpAddr, SocketAddr};

use ring::hmac;

use crate::NodeName;
use crate::election::capabilities::{LinkSetId, MISSING_LINKS_MAX, NodeCapabilities};
use crate::handoff::next_hop::{LINK_ADDRESSES_MAX, LinkAddress};

#[cfg(test)]
mod tests;

const MAGIC: [u8; 4] = *b"PLA3";
const TAG_BYTES: usize = 16;
const QUORATE: u8 = 1;
const LEAVING: u8 = 2;
const GRANTS_LEASE: u8 = 4;
const HAS_ECHO: u8 = 8;
/// Flag of the capabilities.
const HAS_EDGE: u8 = 1;

/// Maximum number of entries that a receiver accepts in one datagram.
pub(crate) const ENTRIES_MAX: usize = 32;
/// Maximum number of entries that a sender puts into one datagram. With the longest names it fits the minimum IPv6 MTU.
pub(crate) const ENTRIES_SENT_MAX: usize = 24;
/// Maximum length of a Node name (RFC 1123 subdomain).
const NAME_BYTES_MAX: usize = 253;
/// Maximum length of a datagram.
pub(crate) const BYTES_MAX: usize = MAGIC.len()
    + TAG_BYTES
    + 4 * 8
    + 1
    + 2 * (1 + NAME_BYTES_MAX)
    + 3 * 8
    + 2
    + ENTRIES_MAX * 18
    + 2
    + MISSING_LINKS_MAX * 8
    + 1
    + LINK_ADDRESSES_MAX * (17 + 6)
    + 4;

/// Send time on the sender's monotonic clock, in nanoseconds. Receivers use it only as a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

/// Probe, with requests and answers about votes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Node of the sender.
    pub from: NodeName,
    /// Node of the receiver.
    pub to: NodeName,
    /// Incarnation of the sender's process.
    pub incarnation: u64,
    /// Send time.
    pub timestamp: Timestamp,
    /// Epoch of the member list that the sender has.
    pub epoch: u64,
    /// Lowest epoch of candidates that the sender grants votes to.
    pub min_epoch: u64,
    /// True if the sender holds leases of a majority.
    pub is_quorate: bool,
    /// True if the sender shuts down and hands its addresses over.
    pub is_leaving: bool,
    /// Last message of the receiver that the sender accepted.
    pub echo: Option<Echo>,
    /// Generation of the vote lease that the receiver holds from the send time of the echoed message on. Votes of other
    /// generations are void.
    pub lease_generation: Option<u64>,
    /// Requests and answers about votes.
    pub entries: Vec<VoteEntry>,
    /// Capabilities of the sender.
    pub capabilities: NodeCapabilities,
    /// Addresses at which the sender receives forwarded packets of former connections.
    pub link_addresses: Vec<LinkAddress>,
}

/// Reference to an accepted message. It proves to the sender of the accepted message that the message with the echo is
/// newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Incarnation of its sender.
    pub incarnation: u64,
    /// Its send time, on the clock of its sender.
    pub timestamp: Timestamp,
}

/// Request or answer about the vote for one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteEntry {
    /// The sender requests the vote of the receiver.
    RequestVote(IpAddr),
    /// The receiver holds the vote of the sender.
    GrantVote(IpAddr),
    /// The sender returns the vote of the receiver.
    ReleaseVote(IpAddr),
    /// The sender returns the vote of the receiver, and announced the address until then.
    ReleaseAddress(IpAddr),
    /// The receiver no longer holds the vote of the sender.
    ConfirmRelease(IpAddr),
}

/// Error of a datagram that is not a valid message of a member. The receiver drops it; a retry does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The datagram has another magic number: another protocol or another version.
    #[error("expected a message of version 3")]
    Version,
    /// The named sender is not a member, or its current process has not published a key.
    #[error("expected a sender with a recorded key")]
    UnknownSender,
    /// The source address differs from the recorded address of the sender.
    #[error("expected source {recorded}, found {found}")]
    WrongSource {
        /// Recorded address of the sender.
        recorded: SocketAddr,
        /// Source of the datagram.
        found: SocketAddr,
    },
    /// The tag does not match: a forgery, or a message from or to an earlier process.
    #[error("expected a tag of the key that this process shares with the sender")]
    Authentication,
    /// The message is authentic and malformed, which hints at another version.
    #[error("expected {expected} at byte {at}")]
    Malformed {
        /// Expected content.
        expected: &'static str,
        /// Offset in bytes.
        at: usize,
    },
}

/// Authentication key of one direction between two processes.
pub struct Key(hmac::Key);

impl Key {
    /// Creates a key from its bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    fn tag(&self, body: &[u8]) -> [u8; TAG_BYTES] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(&MAGIC);
        context.update(body);
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&context.sign().as_ref()[..TAG_BYTES]);
        tag
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Message {
    /// Encodes the message. It omits entries beyond `ENTRIES_MAX`, missing links beyond `MISSING_LINKS_MAX`,
    /// and link addresses beyond `LINK_ADDRESSES_MAX`.
    pub fn encode(&self, key: &Key) -> Vec<u8> {
        let mut body = Vec::with_capacity(128);
        for name in [&self.from, &self.to] {
            let name = &name.as_bytes()[..name.len().min(NAME_BYTES_MAX)];
            body.push(name.len() as u8);
            body.extend(name);
        }
        for number in [self.incarnation, self.timestamp.0, self.epoch, self.min_epoch] {
            body.extend(number.to_be_bytes());
        }
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        body.push(
            flag(self.is_quorate, QUORATE)
                | flag(self.is_leaving, LEAVING)
                | flag(self.lease_generation.is_some(), GRANTS_LEASE)
                | flag(self.echo.is_some(), HAS_ECHO),
        );
        let echo = self.echo.iter();
        let echo = echo.flat_map(|echo| [echo.incarnation, echo.timestamp.0]);
        for number in echo.chain(self.lease_generation) {
            body.extend(number.to_be_bytes());
        }
        let entries = &self.entries[..self.entries.len().min(ENTRIES_MAX)];
        body.extend((entries.len() as u16).to_be_bytes());
        for entry in entries {
            entry.encode(&mut body);
        }
        encode_capabilities(&self.capabilities, &mut body);
        encode_link_addresses(&self.link_addresses, &mut body);
        let released = entries.iter().enumerate();
        let released = released.filter(|(_, entry)| matches!(entry, VoteEntry::ReleaseAddress(_)));
        let bits = released.fold(0_u32, |bits, (index, _)| bits | 1 << index);
        body.extend(bits.to_be_bytes());
        let mut bytes = Vec::with_capacity(MAGIC.len() + TAG_BYTES + body.len());
        bytes.extend(MAGIC);
        bytes.extend(key.tag(&body));
        bytes.extend(body);
        bytes
    }

    /// Reads the sender that a datagram claims, without authentication.
    ///
    /// # Errors
    /// [`MessageError::Version`] or [`MessageError::Malformed`] if the datagram has no readable sender.
    pub fn claimed_sender(bytes: &[u8]) -> Result<NodeName, MessageError> {
        let (_, body) = split(bytes)?;
        Reader { bytes: body, at: 0 }.name()
    }

    /// Authenticates and decodes a datagram.
    ///
    /// # Errors
    /// Returns an error if the version or the tag differs, or if the message is malformed.
    pub fn decode(bytes: &[u8], key: &Key) -> Result<Self, MessageError> {
        let (tag, body) = split(bytes)?;
        // Constant time: an early exit would reveal the number of matching bytes.
        let difference = tag.iter().zip(key.tag(body)).fold(0, |sum, (a, b)| sum | (a ^ b));
        if difference != 0 {
            return Err(MessageError::Authentication);
        }
        Self::decode_body(body)
    }

    /// Decodes the bytes after the tag.
    ///
    /// # Errors
    /// Returns [`MessageError::Malformed`] if a field is missing or out of range.
    pub fn decode_body(body: &[u8]) -> Result<Self, MessageError> {
        let mut reader = Reader { bytes: body, at: 0 };
        let (from, to) = (reader.name()?, reader.name()?);
        let incarnation = reader.number()?;
        let timestamp = Timestamp(reader.number()?);
        let (epoch, min_epoch) = (reader.number()?, reader.number()?);
        let [flags] = reader.take("flags")?;
        let mut echo = None;
        if flags & HAS_ECHO != 0 {
            echo = Some(Echo {
                incarnation: reader.number()?,
                timestamp: Timestamp(reader.number()?),
            });
        }
        let lease_generation = if flags & GRANTS_LEASE == 0 {
            None
        } else {
            Some(reader.number()?)
        };
        let count = usize::from(u16::from_be_bytes(reader.take("the number of entries")?));
        if count > ENTRIES_MAX {
            return Err(reader.malformed("fewer entries"));
        }
        let mut entries: Vec<VoteEntry> = (0..count).map(|_| reader.entry()).collect::<Result<_, _>>()?;
        let capabilities = reader.capabilities()?;
        let link_addresses = reader.link_addresses()?;
        let released = u32::from_be_bytes(reader.take("the bit set of released addresses")?);
        for (index, entry) in entries.iter_mut().enumerate() {
            if let VoteEntry::ReleaseVote(address) = *entry
                && released >> index & 1 != 0
            {
                *entry = VoteEntry::ReleaseAddress(address);
            }
        }
        Ok(Self {
            from,
            to,
            incarnation,
            timestamp,
            epoch,
            min_epoch,
            is_quorate: flags & QUORATE != 0,
            is_leaving: flags & LEAVING != 0,
            echo,
            lease_generation,
            entries,
            capabilities,
            link_addresses,
        })
    }
}

/// Splits a datagram of this version into tag and body.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), MessageError> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or(MessageError::Version)?;
    rest.split_at_checked(TAG_BYTES).ok_or(MessageError::Version)
}

fn encode_capabilities(capabilities: &NodeCapabilities, bytes: &mut Vec<u8>) {
    bytes.push(if capabilities.has_edge { HAS_EDGE } else { 0 });
    bytes.push(capabilities.missing_links.len().min(MISSING_LINKS_MAX) as u8);
    let missing_links = capabilities.missing_links.iter().take(MISSING_LINKS_MAX);
    bytes.extend(missing_links.flat_map(|links| links.0.to_be_bytes()));
}

fn encode_link_addresses(link_addresses: &[LinkAddress], bytes: &mut Vec<u8>) {
    let link_addresses = &link_addresses[..link_addresses.len().min(LINK_ADDRESSES_MAX)];
    bytes.push(link_addresses.len() as u8);
    for link_address in link_addresses {
        encode_address(link_address.address, bytes);
        bytes.extend(link_address.hardware);
    }
}

fn encode_address(address: IpAddr, bytes: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => {
            bytes.push(4);
            bytes.extend(address.octets());
        }
        IpAddr::V6(address) => {
            bytes.push(6);
            bytes.extend(address.octets());
        }
    }
}

impl VoteEntry {
    fn encode(self, bytes: &mut Vec<u8>) {
        let (kind, address) = match self {
            Self::RequestVote(address) => (1, address),
            Self::GrantVote(address) => (2, address),
            Self::ReleaseVote(address) | Self::ReleaseAddress(address) => (3, address),
            Self::ConfirmRelease(address) => (4, address),
        };
        bytes.push(kind);
        encode_address(address, bytes);
    }
}

/// Reader of the fields of a message.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn malformed(&self, expected: &'static str) -> MessageError {
        MessageError::Malformed {
            expected,
            at: self.at,
        }
    }

    fn take<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], MessageError> {
        let part = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk::<N>);
        let part = *part.ok_or(self.malformed(expected))?;
        self.at += N;
        Ok(part)
    }

    fn number(&mut self) -> Result<u64, MessageError> {
        self.take("a number").map(u64::from_be_bytes)
    }

    fn name(&mut self) -> Result<NodeName, MessageError> {
        let [length] = self.take("the length of a name")?;
        let end = self.at + usize::from(length);
        let name = self.bytes.get(self.at..end).filter(|name| !name.is_empty());
        let name = name.and_then(|name| std::str::from_utf8(name).ok());
        let name = NodeName::from(name.ok_or(self.malformed("a name"))?);
        if name.len() > NAME_BYTES_MAX {
            return Err(self.malformed("a shorter name"));
        }
        self.at = end;
        Ok(name)
    }

    fn capabilities(&mut self) -> Result<NodeCapabilities, MessageError> {
        let [flags, count] = self.take("capabilities")?;
        if usize::from(count) > MISSING_LINKS_MAX {
            return Err(self.malformed("fewer links"));
        }
        let missing_links = (0..count).map(|_| self.number().map(LinkSetId));
        Ok(NodeCapabilities {
            missing_links: missing_links.collect::<Result<_, _>>()?,
            has_edge: flags & HAS_EDGE != 0,
        })
    }

    fn link_addresses(&mut self) -> Result<Vec<LinkAddress>, MessageError> {
        let [count] = self.take("the number of link addresses")?;
        if usize::from(count) > LINK_ADDRESSES_MAX {
            return Err(self.malformed("fewer link addresses"));
        }
        let link_addresses = (0..count).map(|_| {
            Ok(LinkAddress {
                address: self.address()?,
                hardware: self.take("an Ethernet address")?,
            })
        });
        link_addresses.collect()
    }

    fn address(&mut self) -> Result<IpAddr, MessageError> {
        let [family] = self.take("an address family")?;
        Ok(match family {
            4 => IpAddr::from(self.take::<4>("an IPv4 address")?),
            6 => IpAddr::from(self.take::<16>("an IPv6 address")?),
            _ => return Err(self.malformed("an address family")),
        })
    }

    fn entry(&mut self) -> Result<VoteEntry, MessageError> {
        let [kind] = self.take("an entry")?;
        let address = self.address()?;
        match kind {
            1 => Ok(VoteEntry::RequestVote(address)),
            2 => Ok(VoteEntry::GrantVote(address)),
            3 => Ok(VoteEntry::ReleaseVote(address)),
            4 => Ok(VoteEntry::ConfirmRelease(address)),
            _ => Err(self.malformed("a kind of entry")),
        }
    }
}
