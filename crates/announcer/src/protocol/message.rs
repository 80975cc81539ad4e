//! What nodes tell each other, in bytes: one UDP datagram, authenticated with a key that only its sender and its receiver can
//! make ([`crate::protocol::keys`]).
//!
//! All numbers are big-endian. Magic (4), tag (16: HMAC-SHA-256 of the magic and of all that follows, cut), sender's name,
//! receiver's name (length in one byte each), incarnation (8), stamp (8), epoch (8), lowest epoch that votes are lent to (8),
//! flags (1), the receiver's message that was heard last if its flag is set (incarnation, stamp: 8 each), the generation of the
//! lease if its flag is set (8), number of entries (2), and for each its kind (1), address family (1: 4 or 6) and address.
//! Then what the sender has ([`crate::election::capabilities`]): flags (1), number of links that it lacks (1), and their numbers (8 each); and
//! where it takes packets for addresses that it gave up ([`crate::handoff::next_hop`]): number of entrances (1), for each its family (1),
//! address and Ethernet address (6). The last is a bit for each entry, the lowest for the first (4): a vote given back whose bit
//! is set is of an address that the sender answered for until then. What comes behind, and flags that are not known, are a later
//! version's, and are passed over.
//!
//! That is version 3. Versions 1 and 2 were authenticated with one key for all; they are neither sent nor read.

use std::net::{IpAddr, SocketAddr};

use ring::hmac;

use crate::NodeName;
use crate::election::capabilities::{LACKS_MAX, LinksId, Means};
use crate::handoff::next_hop::Entrance;

#[cfg(test)]
mod tests;

const MAGIC: [u8; 4] = *b"PLA3";
const TAG_BYTES: usize = 16;
const QUORATE: u8 = 1;
const LEAVING: u8 = 2;
const GRANTS: u8 = 4;
const HEARD: u8 = 8;
/// A flag of what the sender has.
const EDGE: u8 = 1;

/// Entries that one datagram may have.
pub const ENTRIES_MAX: usize = 32;
/// Entries that are put into one: with the longest names it stays below the smallest MTU of IPv6.
pub const ENTRIES_SENT_MAX: usize = 24;
/// Most entrances that a node tells: those of both families on three links.
pub const ENTRANCES_MAX: usize = 6;
/// Longest name: that of Kubernetes' Nodes (RFC 1123 subdomain).
const NAME_BYTES_MAX: usize = 253;
/// No datagram is longer.
pub const BYTES_MAX: usize = MAGIC.len()
    + TAG_BYTES
    + 4 * 8
    + 1
    + 2 * (1 + NAME_BYTES_MAX)
    + 3 * 8
    + 2
    + ENTRIES_MAX * 18
    + 2
    + LACKS_MAX * 8
    + 1
    + ENTRANCES_MAX * (17 + 6)
    + 4;

/// A moment on the sender's clock, in nanoseconds; to others a number that grows from one datagram to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(pub u64);

/// A probe, and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The sender.
    pub from: NodeName,
    /// The receiver.
    pub to: NodeName,
    /// The sender's process.
    pub incarnation: u64,
    /// When it was sent.
    pub stamp: Stamp,
    /// The list of members that the sender knows.
    pub epoch: u64,
    /// The sender lends no votes to nodes that know an older list.
    pub refuses_below: u64,
    /// Whether enough members hear the sender that it could get votes.
    pub is_quorate: bool,
    /// Whether the sender is about to end, and gives its addresses away.
    pub is_leaving: bool,
    /// The receiver's message that the sender heard last.
    pub heard: Option<Echo>,
    /// The lease of votes that the receiver has from the time of that message on; votes of another one are void.
    pub grant: Option<u64>,
    /// Requests for votes, and answers.
    pub entries: Vec<Entry>,
    /// What the sender has.
    pub means: Means,
    /// Where the sender takes packets for addresses that it gave up.
    pub entrances: Vec<Entrance>,
}

/// A message that was heard, as its sender is told of it. It proves to that sender that the teller spoke after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// The process that sent it.
    pub incarnation: u64,
    /// Its stamp, on the clock of that process.
    pub stamp: Stamp,
}

/// One thing about one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The sender wants the receiver's vote.
    Ask(IpAddr),
    /// The receiver has the sender's vote.
    Vote(IpAddr),
    /// The sender needs the receiver's vote no more.
    Release(IpAddr),
    /// The same, and the sender answered for the address until then.
    GaveUp(IpAddr),
    /// The receiver has the sender's vote no more.
    Released(IpAddr),
}

/// A datagram that is not a member's message. It is dropped; trying again does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Something else was sent to the port, or an announcer of another version sent it.
    #[error("expected a message of version 3")]
    Magic,
    /// No member of that name is known, or its present process has made no key known.
    #[error("expected a sender whose key is recorded")]
    Sender,
    /// It did not come from where the record says that its sender is.
    #[error("expected {recorded} as the source, found {found}")]
    Source {
        /// The recorded address.
        recorded: SocketAddr,
        /// The source.
        found: SocketAddr,
    },
    /// Somebody else made it, an earlier process of the sender did, or it is for another process.
    #[error("expected a tag made with the key that this process shares with the sender")]
    Tag,
    /// The sender made it and it cannot be read: the versions differ.
    #[error("expected {expected} at byte {at}")]
    Malformed {
        /// What should be there.
        expected: &'static str,
        /// Where.
        at: usize,
    },
}

/// The key for messages from one process to another one.
pub struct Key(hmac::Key);

impl Key {
    /// The key of those bytes.
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
    /// The message in bytes. Entries beyond [`ENTRIES_MAX`] are left out, lacking links beyond [`LACKS_MAX`], and entrances beyond
    /// [`ENTRANCES_MAX`].
    pub fn encode(&self, key: &Key) -> Vec<u8> {
        let mut body = Vec::with_capacity(128);
        for name in [&self.from, &self.to] {
            let name = &name.as_bytes()[..name.len().min(NAME_BYTES_MAX)];
            body.push(name.len() as u8);
            body.extend(name);
        }
        for number in [self.incarnation, self.stamp.0, self.epoch, self.refuses_below] {
            body.extend(number.to_be_bytes());
        }
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        body.push(
            flag(self.is_quorate, QUORATE)
                | flag(self.is_leaving, LEAVING)
                | flag(self.grant.is_some(), GRANTS)
                | flag(self.heard.is_some(), HEARD),
        );
        let heard = self.heard.iter();
        let heard = heard.flat_map(|heard| [heard.incarnation, heard.stamp.0]);
        for number in heard.chain(self.grant) {
            body.extend(number.to_be_bytes());
        }
        let entries = &self.entries[..self.entries.len().min(ENTRIES_MAX)];
        body.extend((entries.len() as u16).to_be_bytes());
        for entry in entries {
            entry.encode(&mut body);
        }
        encode_means(&self.means, &mut body);
        encode_entrances(&self.entrances, &mut body);
        let gave_up = entries.iter().enumerate();
        let gave_up = gave_up.filter(|(_, entry)| matches!(entry, Entry::GaveUp(_)));
        let bits = gave_up.fold(0_u32, |bits, (place, _)| bits | 1 << place);
        body.extend(bits.to_be_bytes());
        let mut bytes = Vec::with_capacity(MAGIC.len() + TAG_BYTES + body.len());
        bytes.extend(MAGIC);
        bytes.extend(key.tag(&body));
        bytes.extend(body);
        bytes
    }

    /// The sender that a datagram names. Nothing proves yet that it is its sender.
    ///
    /// # Errors
    /// [`MessageError::Magic`] and [`MessageError::Malformed`].
    pub fn claimed_sender(bytes: &[u8]) -> Result<NodeName, MessageError> {
        let (_, body) = split(bytes)?;
        Reader { bytes: body, at: 0 }.name()
    }

    /// Reads a datagram that was made with that key.
    ///
    /// # Errors
    /// See [`MessageError`].
    pub fn decode(bytes: &[u8], key: &Key) -> Result<Self, MessageError> {
        let (tag, body) = split(bytes)?;
        // All bytes are looked at, so that the time tells nothing.
        let difference = tag.iter().zip(key.tag(body)).fold(0, |sum, (a, b)| sum | (a ^ b));
        if difference != 0 {
            return Err(MessageError::Tag);
        }
        Self::decode_body(body)
    }

    /// Reads what follows the tag.
    ///
    /// # Errors
    /// [`MessageError::Malformed`].
    pub fn decode_body(body: &[u8]) -> Result<Self, MessageError> {
        let mut reader = Reader { bytes: body, at: 0 };
        let (from, to) = (reader.name()?, reader.name()?);
        let incarnation = reader.number()?;
        let stamp = Stamp(reader.number()?);
        let (epoch, refuses_below) = (reader.number()?, reader.number()?);
        let [flags] = reader.take("flags")?;
        let mut heard = None;
        if flags & HEARD != 0 {
            heard = Some(Echo {
                incarnation: reader.number()?,
                stamp: Stamp(reader.number()?),
            });
        }
        let grant = if flags & GRANTS == 0 {
            None
        } else {
            Some(reader.number()?)
        };
        let count = usize::from(u16::from_be_bytes(reader.take("the number of entries")?));
        if count > ENTRIES_MAX {
            return Err(reader.malformed("fewer entries"));
        }
        let mut entries: Vec<Entry> = (0..count).map(|_| reader.entry()).collect::<Result<_, _>>()?;
        let means = reader.means()?;
        let entrances = reader.entrances()?;
        let gave_up = u32::from_be_bytes(reader.take("which addresses were given up")?);
        for (place, entry) in entries.iter_mut().enumerate() {
            if let Entry::Release(address) = *entry
                && gave_up >> place & 1 != 0
            {
                *entry = Entry::GaveUp(address);
            }
        }
        Ok(Self {
            from,
            to,
            incarnation,
            stamp,
            epoch,
            refuses_below,
            is_quorate: flags & QUORATE != 0,
            is_leaving: flags & LEAVING != 0,
            heard,
            grant,
            entries,
            means,
            entrances,
        })
    }
}

/// Tag and body of a datagram of this version.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), MessageError> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or(MessageError::Magic)?;
    rest.split_at_checked(TAG_BYTES).ok_or(MessageError::Magic)
}

fn encode_means(means: &Means, bytes: &mut Vec<u8>) {
    bytes.push(if means.has_edge { EDGE } else { 0 });
    bytes.push(means.lacks.len().min(LACKS_MAX) as u8);
    let lacks = means.lacks.iter().take(LACKS_MAX);
    bytes.extend(lacks.flat_map(|links| links.0.to_be_bytes()));
}

fn encode_entrances(entrances: &[Entrance], bytes: &mut Vec<u8>) {
    let entrances = &entrances[..entrances.len().min(ENTRANCES_MAX)];
    bytes.push(entrances.len() as u8);
    for entrance in entrances {
        encode_address(entrance.address, bytes);
        bytes.extend(entrance.hardware);
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

impl Entry {
    fn encode(self, bytes: &mut Vec<u8>) {
        let (kind, address) = match self {
            Self::Ask(address) => (1, address),
            Self::Vote(address) => (2, address),
            Self::Release(address) | Self::GaveUp(address) => (3, address),
            Self::Released(address) => (4, address),
        };
        bytes.push(kind);
        encode_address(address, bytes);
    }
}

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

    fn means(&mut self) -> Result<Means, MessageError> {
        let [flags, count] = self.take("what the sender has")?;
        if usize::from(count) > LACKS_MAX {
            return Err(self.malformed("fewer links"));
        }
        let lacks = (0..count).map(|_| self.number().map(LinksId));
        Ok(Means {
            lacks: lacks.collect::<Result<_, _>>()?,
            has_edge: flags & EDGE != 0,
        })
    }

    fn entrances(&mut self) -> Result<Vec<Entrance>, MessageError> {
        let [count] = self.take("the number of entrances")?;
        if usize::from(count) > ENTRANCES_MAX {
            return Err(self.malformed("fewer entrances"));
        }
        let entrances = (0..count).map(|_| {
            Ok(Entrance {
                address: self.address()?,
                hardware: self.take("an Ethernet address")?,
            })
        });
        entrances.collect()
    }

    fn address(&mut self) -> Result<IpAddr, MessageError> {
        let [family] = self.take("an address family")?;
        Ok(match family {
            4 => IpAddr::from(self.take::<4>("an IPv4 address")?),
            6 => IpAddr::from(self.take::<16>("an IPv6 address")?),
            _ => return Err(self.malformed("an address family")),
        })
    }

    fn entry(&mut self) -> Result<Entry, MessageError> {
        let [kind] = self.take("an entry")?;
        let address = self.address()?;
        match kind {
            1 => Ok(Entry::Ask(address)),
            2 => Ok(Entry::Vote(address)),
            3 => Ok(Entry::Release(address)),
            4 => Ok(Entry::Released(address)),
            _ => Err(self.malformed("a kind of entry")),
        }
    }
}
