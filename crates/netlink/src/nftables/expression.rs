//! Expressions: what rules are made of. Each reads or writes registers, or ends the rule.

use crate::message::{Attribute, Writer};

use super::element::{decode_value, encode_value};
use super::wire;

mod decode;
mod encode;

/// Registers of 32 bits that a rule has.
const REGISTERS: u8 = 16;
/// `NFT_REG32_00`.
const FIRST_NUMBER: u32 = 8;

/// A register of 32 bits; longer values go on in the next ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Register(u8);

impl Register {
    /// The register of that index, 0 to 15.
    ///
    /// # Panics
    /// If there is none; rules are made of constants, so a test finds it.
    pub const fn at(index: u8) -> Self {
        assert!(index < REGISTERS, "a rule has 16 registers");
        Self(index)
    }

    /// The register that many bytes on.
    pub const fn plus(self, bytes: usize) -> Self {
        Self::at(self.0 + (bytes / 4) as u8)
    }

    /// The register before.
    pub const fn minus_one(self) -> Self {
        Self::at(self.0 - 1)
    }

    fn number(self) -> u32 {
        FIRST_NUMBER + u32::from(self.0)
    }

    /// Also by the older numbers, 1 to 4, of registers of 128 bits.
    fn from_number(number: u32) -> Option<Self> {
        let index = match number {
            1..=4 => (number - 1) * 4,
            FIRST_NUMBER.. => number - FIRST_NUMBER,
            _ => return None,
        };
        u8::try_from(index)
            .ok()
            .filter(|index| *index < REGISTERS)
            .map(Self)
    }
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict<Name> {
    /// It goes on to the next hook.
    Accept,
    /// It is gone.
    Drop,
    /// The chain goes on behind the rule that came here.
    Return,
    /// On with that chain, and back.
    Jump(Name),
    /// On with that chain for good.
    Goto(Name),
}

impl<Name: AsRef<str>> Verdict<Name> {
    /// The chain that it leads to.
    pub fn chain(&self) -> Option<&str> {
        match self {
            Self::Jump(chain) | Self::Goto(chain) => Some(chain.as_ref()),
            Self::Accept | Self::Drop | Self::Return => None,
        }
    }

    fn code(&self) -> i32 {
        match self {
            Self::Drop => 0,
            Self::Accept => 1,
            Self::Jump(_) => -3,
            Self::Goto(_) => -4,
            Self::Return => -5,
        }
    }

    /// Appends `struct nft_data` that holds the verdict.
    pub(super) fn encode(&self, writer: &mut Writer, kind: u16) {
        let data = writer.nest(kind);
        let verdict = writer.nest(wire::DATA_VERDICT);
        writer.u32_be(wire::VERDICT_CODE, self.code() as u32);
        if let Some(chain) = self.chain() {
            writer.text(wire::VERDICT_CHAIN, chain);
        }
        writer.end(verdict);
        writer.end(data);
    }
}

impl Verdict<String> {
    /// The same with a borrowed name.
    pub fn as_deref(&self) -> Verdict<&str> {
        match self {
            Self::Accept => Verdict::Accept,
            Self::Drop => Verdict::Drop,
            Self::Return => Verdict::Return,
            Self::Jump(chain) => Verdict::Jump(chain),
            Self::Goto(chain) => Verdict::Goto(chain),
        }
    }
}

impl<'a> Verdict<&'a str> {
    /// Reads `struct nft_data` that holds a verdict.
    pub(super) fn decode(attribute: Attribute<'a>) -> Option<Self> {
        let verdict = attribute
            .nested()
            .find(|inner| inner.kind == wire::DATA_VERDICT)?;
        let (mut code, mut chain) = (None, None);
        for inner in verdict.nested() {
            match inner.kind {
                wire::VERDICT_CODE => code = inner.u32_be(),
                wire::VERDICT_CHAIN => chain = inner.text(),
                _ => {}
            }
        }
        Some(match code? as i32 {
            0 => Self::Drop,
            1 => Self::Accept,
            -3 => Self::Jump(chain?),
            -4 => Self::Goto(chain?),
            -5 => Self::Return,
            _ => return None,
        })
    }

    /// The same with a name of its own.
    pub fn to_owned(self) -> Verdict<String> {
        match self {
            Self::Accept => Verdict::Accept,
            Self::Drop => Verdict::Drop,
            Self::Return => Verdict::Return,
            Self::Jump(chain) => Verdict::Jump(chain.to_owned()),
            Self::Goto(chain) => Verdict::Goto(chain.to_owned()),
        }
    }
}

/// Where in a packet bytes are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PayloadBase {
    /// From the Ethernet header, where there is one.
    Link = 0,
    /// From the IP header.
    Network = 1,
    /// From the TCP, UDP or SCTP header.
    Transport = 2,
}

/// What is known of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MetaKey {
    /// `mark`: the packet's mark, 32 bits.
    Mark = 3,
    /// `iifname`: the name of the interface that it came in by, 16 bytes with zeros behind it.
    InputInterface = 6,
    /// `nfproto`: the family, one byte.
    Family = 15,
    /// `l4proto`: the protocol, one byte.
    Protocol = 16,
    /// `iifgroup`: the group of the interface that it came in by, 32 bits of this machine's byte order.
    InputGroup = 21,
}

/// What is known of a packet's connection; addresses and ports as its first packet had them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CtKey {
    /// What the packet is to its connection: a bit of [`CtState`].
    State = 0,
    /// `IPS_…` bits.
    Status = 2,
    /// The destination port.
    OriginalPort = 12,
    /// The IPv4 destination address.
    OriginalIpv4 = 20,
    /// The IPv6 destination address.
    OriginalIpv6 = 22,
}

/// What a packet is to its connection: bits of [`CtKey::State`], 32 of this machine's byte order
/// (`NF_CT_STATE_BIT` of `nf_conntrack_common.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CtState {
    /// Of no connection, and none can begin with it; or it does not fit into the one that it names.
    Invalid = 1,
    /// The first one of a connection that is not known, also in the middle of one.
    New = 1 << 3,
}

/// Which address is looked up among routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FibAddress {
    /// The source.
    Source = 1,
    /// The destination.
    Destination = 2,
}

/// How a register is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Comparison {
    /// The rule goes on if it is equal.
    Equal = 0,
    /// The rule goes on if it is not.
    NotEqual = 1,
}

/// Where a lookup's result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Nowhere: the rule goes on if the key is there.
    Found,
    /// Nowhere: the rule goes on if the key is not there.
    NotFound,
    /// It is the verdict.
    Verdict,
    /// Into registers.
    Register(Register),
}

/// What a rule does to a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DynsetOperation {
    /// Adds, unless the key is there.
    Add = 0,
    /// Adds, or gives the key's element its whole time again.
    Update = 1,
    /// Deletes.
    Delete = 2,
}

/// How a packet is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// A TCP reset.
    TcpReset,
    /// ICMP or ICMPv6 port unreachable.
    PortUnreachable,
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// Loads bytes of the packet.
    Payload {
        /// From where.
        base: PayloadBase,
        /// Bytes from there.
        offset: u32,
        /// How many.
        bytes: u32,
        /// Into.
        into: Register,
    },
    /// Loads what is known of the packet.
    Meta {
        /// What.
        key: MetaKey,
        /// Into.
        into: Register,
    },
    /// Sets the packet's mark.
    SetMark {
        /// From.
        from: Register,
    },
    /// Loads what is known of the connection.
    Ct {
        /// What.
        key: CtKey,
        /// Into.
        into: Register,
    },
    /// Loads the type of an address as routes tell it (`RTN_LOCAL` …), 32 bits of this machine's byte order.
    FibType {
        /// Which address.
        address: FibAddress,
        /// Into.
        into: Register,
    },
    /// Loads the number of the link that a packet came in by, if routes lead to an address by that link, else 0; 32 bits
    /// of this machine's byte order (`fib saddr . iif oif`).
    FibInput {
        /// Which address.
        address: FibAddress,
        /// Into.
        into: Register,
    },
    /// Loads bytes that are given.
    Load {
        /// Which.
        value: Vec<u8>,
        /// Into.
        into: Register,
    },
    /// Ends the rule unless the comparison holds.
    Compare {
        /// What.
        register: Register,
        /// How.
        comparison: Comparison,
        /// With what.
        value: Vec<u8>,
    },
    /// Keeps bits: `into = from & mask`.
    Mask {
        /// What.
        from: Register,
        /// Into.
        into: Register,
        /// Which bits.
        mask: Vec<u8>,
    },
    /// Looks up a key; a rule ends where the key is not in the map.
    Lookup {
        /// In which set or map.
        set: String,
        /// The key's first register.
        key: Register,
        /// Where the result goes.
        into: Destination,
    },
    /// Decides.
    Verdict(Verdict<String>),
    /// Loads a random number from 0 to `modulus` - 1, 32 bits of this machine's byte order.
    Random {
        /// How many different numbers.
        modulus: u32,
        /// Into.
        into: Register,
    },
    /// Loads the next number of 0 to `modulus` - 1, which the rule counts, 32 bits of this machine's byte order.
    Increment {
        /// How many different numbers.
        modulus: u32,
        /// Into.
        into: Register,
    },
    /// Loads a number from 0 to `modulus` - 1 that is Jenkins' hash of registers, 32 bits of this machine's byte
    /// order.
    Hash {
        /// The first register.
        from: Register,
        /// How many bytes.
        bytes: u32,
        /// How many different numbers.
        modulus: u32,
        /// What the hash begins with.
        seed: u32,
        /// Into.
        into: Register,
    },
    /// Gives the connection another destination, and accepts.
    Dnat {
        /// Whether it is IPv6.
        is_ipv6: bool,
        /// The address's first register.
        address: Register,
        /// The port's register.
        port: Register,
    },
    /// Gives the connection this node's address as its source, with a random port.
    Masquerade,
    /// Sends a copy of the packet to another machine as it is, past connection tracking; in tables of the families
    /// `ip` and `ip6` only.
    Dup {
        /// The machine's address, in its first register.
        address: Register,
        /// The register of the link that leads to it, by its index.
        link: Register,
    },
    /// Keeps connection tracking from taking note of the packet.
    Notrack,
    /// Refuses.
    Reject(Rejection),
    /// Changes a map that forgets: key → data, for a time.
    Dynset {
        /// The map.
        set: String,
        /// What is done.
        operation: DynsetOperation,
        /// The key's first register.
        key: Register,
        /// The value's first register.
        data: Register,
        /// For how long, in milliseconds.
        timeout_ms: u64,
    },
    /// Something else that was read back, by its name.
    Other(String),
}
