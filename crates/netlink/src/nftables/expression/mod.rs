//! Expressions of rules. Each one reads or writes registers, or ends the rule.

use crate::message::{Attribute, Writer};

use super::element::{decode_value, encode_value};
use super::wire;

mod decode;
mod encode;

/// Number of 32-bit registers of a rule.
const REGISTERS: u8 = 16;
/// `NFT_REG32_00`.
const FIRST_NUMBER: u32 = 8;

/// A 32-bit register; longer values continue in the next ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Register(u8);

impl Register {
    /// Returns the register with this index, 0 to 15.
    ///
    /// # Panics
    ///
    /// If the index is 16 or more. Rules use constants, so a test finds it.
    pub const fn at(index: u8) -> Self {
        assert!(index < REGISTERS, "a rule has 16 registers");
        Self(index)
    }

    /// Returns the register `bytes` further on.
    pub const fn plus(self, bytes: usize) -> Self {
        Self::at(self.0 + (bytes / 4) as u8)
    }

    /// Returns the previous register.
    pub const fn minus_one(self) -> Self {
        Self::at(self.0 - 1)
    }

    fn number(self) -> u32 {
        FIRST_NUMBER + u32::from(self.0)
    }

    /// Accepts the older numbers 1 to 4 of 128-bit registers, too.
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

/// Verdict about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict<Name> {
    /// Continue with the next hook.
    Accept,
    /// Drop the packet.
    Drop,
    /// Continue after the rule that jumped here.
    Return,
    /// Jump to a chain.
    Jump(Name),
    /// Go to a chain without return.
    Goto(Name),
}

impl<Name: AsRef<str>> Verdict<Name> {
    /// Returns the chain of a jump or goto.
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

    /// Appends a `struct nft_data` with the verdict.
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
    /// Borrows the name.
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
    /// Decodes a `struct nft_data` with a verdict.
    pub(super) fn decode(attribute: Attribute<'a>) -> Option<Self> {
        let verdict = attribute
            .nested()
            .find(|inner| inner.kind == wire::DATA_VERDICT)?;
        Self::decode_parts(verdict)
    }

    /// Decodes the code and the chain of a verdict.
    pub(super) fn decode_parts(verdict: Attribute<'a>) -> Option<Self> {
        let (mut code, mut chain) = (None, None);
        for inner in verdict.nested() {
            match inner.kind {
                wire::VERDICT_CODE => code = inner.u32_be(),
                wire::VERDICT_CHAIN => chain = inner.text(),
                _ => {}
            }
        }
        Self::of_code(code?, chain)
    }

    /// Returns the verdict for the kernel's code; `None` for other codes, such as "continue".
    pub(super) fn of_code(code: u32, chain: Option<&'a str>) -> Option<Self> {
        Some(match code as i32 {
            0 => Self::Drop,
            1 => Self::Accept,
            -3 => Self::Jump(chain?),
            -4 => Self::Goto(chain?),
            -5 => Self::Return,
            _ => return None,
        })
    }

    /// Copies the name.
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

/// Base of a payload offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum PayloadBase {
    /// Ethernet header.
    Link = 0,
    /// IP header.
    Network = 1,
    /// TCP, UDP or SCTP header.
    Transport = 2,
}

/// Metadata of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MetaKey {
    /// `mark`: packet mark, 32 bits.
    Mark = 3,
    /// `iifname`: name of the input interface, 16 bytes with trailing zeros.
    InputInterface = 6,
    /// `nfproto`: family, one byte.
    Family = 15,
    /// `l4proto`: protocol, one byte.
    Protocol = 16,
    /// `iifgroup`: group of the input interface, 32 bits in host byte order.
    InputGroup = 21,
}

/// Conntrack data of a packet; addresses and ports are those of the first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CtKey {
    /// State of the packet: a bit of [`CtState`].
    State = 0,
    /// Direction of the packet, one byte: 0 from the client, 1 for replies (`enum ip_conntrack_dir`). Packets without a
    /// connection have none, and end the rule.
    Direction = 1,
    /// `IPS_…` bits.
    Status = 2,
    /// Destination port.
    OriginalPort = 12,
    /// IPv4 destination address.
    OriginalIpv4 = 20,
    /// IPv6 destination address.
    OriginalIpv6 = 22,
}

/// Conntrack state of a packet: bits of [`CtKey::State`], 32 bits in host byte order (`NF_CT_STATE_BIT` of
/// `nf_conntrack_common.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CtState {
    /// The packet belongs to no connection and cannot open one, or does not fit its connection.
    Invalid = 1,
    /// The packet belongs to a tracked connection.
    Established = 1 << 1,
    /// The packet belongs to a connection that a tracked one expects, or is an ICMP error about a tracked one.
    Related = 1 << 2,
    /// The packet is the first one of an untracked connection, possibly in its middle.
    New = 1 << 3,
}

/// Address that a FIB lookup uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum FibAddress {
    /// Source address.
    Source = 1,
    /// Destination address.
    Destination = 2,
}

/// Comparison of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Comparison {
    /// The rule continues if the values are equal.
    Equal = 0,
    /// The rule continues if the values differ.
    NotEqual = 1,
}

/// Destination of a lookup's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// None: the rule continues if the key exists.
    Found,
    /// None: the rule continues if the key does not exist.
    NotFound,
    /// The result is the verdict.
    Verdict,
    /// The result goes into registers.
    Register(Register),
}

/// Operation of a rule on a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DynsetOperation {
    /// Add, unless the key exists.
    Add = 0,
    /// Add, or restart the timeout of an existing element.
    Update = 1,
    /// Delete the element.
    Delete = 2,
}

/// Response to a rejected packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// TCP reset.
    TcpReset,
    /// ICMP or ICMPv6 port unreachable.
    PortUnreachable,
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// Loads bytes of the packet.
    Payload {
        /// Header that the offset refers to.
        base: PayloadBase,
        /// Offset in bytes.
        offset: u32,
        /// Number of bytes.
        bytes: u32,
        /// First destination register.
        into: Register,
    },
    /// Loads metadata of the packet.
    Meta {
        /// Metadata to load.
        key: MetaKey,
        /// First destination register.
        into: Register,
    },
    /// Sets the packet mark.
    SetMark {
        /// Source register.
        from: Register,
    },
    /// Traces the packet from here on, if the register has the byte 1.
    SetTrace {
        /// Source register.
        from: Register,
    },
    /// Loads conntrack data.
    Ct {
        /// Data to load.
        key: CtKey,
        /// First destination register.
        into: Register,
    },
    /// Loads the route type of an address (`RTN_LOCAL` …), 32 bits in host byte order.
    FibType {
        /// Address to look up.
        address: FibAddress,
        /// Destination register.
        into: Register,
    },
    /// Loads the index of the input interface if the route to an address uses that interface, otherwise 0 (`fib saddr
    /// . iif oif`). The value has 32 bits in host byte order.
    FibInput {
        /// Address to look up.
        address: FibAddress,
        /// Destination register.
        into: Register,
    },
    /// Loads constant bytes.
    Load {
        /// Bytes to load.
        value: Vec<u8>,
        /// First destination register.
        into: Register,
    },
    /// Ends the rule unless the comparison holds.
    Compare {
        /// Register to compare.
        register: Register,
        /// Comparison operator.
        comparison: Comparison,
        /// Constant to compare with.
        value: Vec<u8>,
    },
    /// Computes `into = from & mask`.
    Mask {
        /// Source register.
        from: Register,
        /// Destination register.
        into: Register,
        /// Bit mask, as long as the value.
        mask: Vec<u8>,
    },
    /// Looks up a key. The rule ends if a map lacks the key.
    Lookup {
        /// Name of the set or map.
        set: String,
        /// First register of the key.
        key: Register,
        /// Destination of the result.
        into: Destination,
    },
    /// Ends the rule with a verdict.
    Verdict(Verdict<String>),
    /// Loads a random number below `modulus`, 32 bits in host byte order.
    Random {
        /// Number of different values.
        modulus: u32,
        /// Destination register.
        into: Register,
    },
    /// Loads the next value of a counter below `modulus`, which belongs to the rule; 32 bits in host byte order.
    Increment {
        /// Number of different values.
        modulus: u32,
        /// Destination register.
        into: Register,
    },
    /// Loads the Jenkins hash of registers, reduced to a number below `modulus`; 32 bits in host byte order.
    Hash {
        /// First register of the input.
        from: Register,
        /// Size of the input in bytes.
        bytes: u32,
        /// Number of different values.
        modulus: u32,
        /// Seed of the hash.
        seed: u32,
        /// Destination register.
        into: Register,
    },
    /// Translates the destination of the connection, and accepts.
    Dnat {
        /// True for IPv6.
        is_ipv6: bool,
        /// First register of the address.
        address: Register,
        /// Register of the port; `None` if the port stays.
        port: Option<Register>,
    },
    /// Translates the source address of the connection, and accepts. The port stays if it is free.
    Snat {
        /// True for IPv6.
        is_ipv6: bool,
        /// First register of the address.
        address: Register,
    },
    /// Translates the source of the connection to an address of this node, with a random port.
    Masquerade,
    /// Sends a copy of the packet to another host, without connection tracking; in tables of the families `ip` and
    /// `ip6` only.
    Dup {
        /// First register of the host's address.
        address: Register,
        /// Register with the index of the output interface.
        link: Register,
    },
    /// Excludes the packet from connection tracking.
    Notrack,
    /// Rejects the packet.
    Reject(Rejection),
    /// Changes an element of a map with timeouts.
    Dynset {
        /// Name of the map.
        set: String,
        /// Change of the set.
        operation: DynsetOperation,
        /// First register of the key.
        key: Register,
        /// First register of the value.
        data: Register,
        /// Timeout in milliseconds.
        timeout_milliseconds: u64,
    },
    /// An expression without a type in this crate, by its name.
    Other(String),
}
