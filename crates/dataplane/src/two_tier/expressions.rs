//! Expressions of the rules of two-tier forwarding: headers, keys and hashes.

use maglev::TABLE_SIZE;
use netlink::nftables::{
    Comparison, CtKey, CtState, Destination, Expression, MetaKey, PayloadBase, Register,
};
use netlink::tcp;
use plan::Family;

use super::state::HashInput;

/// First register of keys, hash inputs and gateways.
pub(super) const FIRST: Register = Register::at(0);
/// Register of the index of a link, after the longest gateway.
pub(super) const GATEWAY_LINK: Register = Register::at(4);
/// Registers of the key of a slot, after the longest hash input: number of the slots, index.
pub(super) const SLOTS: Register = Register::at(12);
pub(super) const SLOT: Register = Register::at(13);

/// Seed of the hash, the same on all nodes.
pub(super) const SEED: u32 = 0x7032_7469;
/// Size of an interface name in the kernel (`IFNAMSIZ`).
const INTERFACE_NAME_BYTES: usize = 16;
/// Size of an ICMP header before the packet that an error is about.
const ICMP_BYTES: u32 = 8;

/// Headers with the addresses of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Headers {
    /// Headers of the packet, which the client sent.
    Outer,
    /// Headers in an ICMP error, which are of a packet to the client.
    InError,
}

/// Position of a field: base and offset.
type FieldPosition = (PayloadBase, u32);

/// Positions of the fields of a connection.
struct FieldPositions {
    client: FieldPosition,
    service: FieldPosition,
    client_port: FieldPosition,
    service_port: FieldPosition,
    /// `None` for the protocol of the packet.
    protocol: Option<FieldPosition>,
}

impl Headers {
    /// Returns the positions of fields. The rules assume that headers in errors have no options.
    fn positions(self, family: Family) -> FieldPositions {
        let (source, destination, protocol, header_bytes) = match family {
            Family::V4 => (12, 16, 9, 20),
            Family::V6 => (8, 24, 6, 40),
        };
        let inner = |offset: u32| (PayloadBase::Transport, ICMP_BYTES + offset);
        match self {
            Self::Outer => FieldPositions {
                client: (PayloadBase::Network, source),
                service: (PayloadBase::Network, destination),
                client_port: (PayloadBase::Transport, 0),
                service_port: (PayloadBase::Transport, 2),
                protocol: None,
            },
            Self::InError => FieldPositions {
                client: inner(destination),
                service: inner(source),
                client_port: inner(header_bytes + 2),
                service_port: inner(header_bytes),
                protocol: Some(inner(protocol)),
            },
        }
    }
}

fn address_size(family: Family) -> u32 {
    match family {
        Family::V4 => 4,
        Family::V6 => 16,
    }
}

/// Loads consecutive fields, each into whole registers.
struct Loader {
    expressions: Vec<Expression>,
    next: Register,
    bytes: u32,
}

impl Loader {
    fn new() -> Self {
        Self {
            expressions: Vec::new(),
            next: FIRST,
            bytes: 0,
        }
    }

    fn field(mut self, (base, offset): FieldPosition, bytes: u32) -> Self {
        self.expressions.push(Expression::Payload {
            base,
            offset,
            bytes,
            into: self.next,
        });
        self.advance(bytes)
    }

    fn protocol(mut self, position: Option<FieldPosition>) -> Self {
        match position {
            Some(position) => self.field(position, 1),
            None => {
                self.expressions.push(Expression::Meta {
                    key: MetaKey::Protocol,
                    into: self.next,
                });
                self.advance(1)
            }
        }
    }

    fn advance(mut self, bytes: u32) -> Self {
        let padded = bytes.next_multiple_of(4);
        self.next = self.next.plus(padded as usize);
        self.bytes += padded;
        self
    }
}

/// Loads the frontend of a packet as a key: address, protocol, port.
pub(super) fn destination_key(family: Family, headers: Headers) -> Vec<Expression> {
    let positions = headers.positions(family);
    Loader::new()
        .field(positions.service, address_size(family))
        .protocol(positions.protocol)
        .field(positions.service_port, 2)
        .expressions
}

/// Loads the index of the slot of a packet.
pub(super) fn slot_hash(
    family: Family,
    headers: Headers,
    input: HashInput,
    into: Register,
) -> Vec<Expression> {
    let positions = headers.positions(family);
    let client = Loader::new().field(positions.client, address_size(family));
    let loaded = match input {
        HashInput::Client => client,
        HashInput::Connection => client
            .field(positions.service, address_size(family))
            .field(positions.client_port, 2)
            .field(positions.service_port, 2)
            .protocol(positions.protocol),
    };
    let mut expressions = loaded.expressions;
    expressions.push(Expression::Hash {
        from: FIRST,
        bytes: loaded.bytes,
        modulus: TABLE_SIZE,
        seed: SEED,
        into,
    });
    expressions
}

/// Matches packets that come in by a link.
pub(super) fn link_name(name: &str) -> Vec<Expression> {
    let mut padded = [0; INTERFACE_NAME_BYTES];
    for (slot, byte) in padded.iter_mut().zip(name.bytes()) {
        *slot = byte;
    }
    let load = Expression::Meta {
        key: MetaKey::InputInterface,
        into: FIRST,
    };
    vec![load, compare(Comparison::Equal, &padded)]
}

/// Matches packets that come in by a link whose name begins like this.
pub(super) fn link_prefix(prefix: &str) -> Vec<Expression> {
    let load = Expression::Meta {
        key: MetaKey::InputInterface,
        into: FIRST,
    };
    vec![load, compare(Comparison::Equal, prefix.as_bytes())]
}

/// Matches packets of a protocol.
pub(super) fn protocol(number: u8) -> Vec<Expression> {
    let load = Expression::Meta {
        key: MetaKey::Protocol,
        into: FIRST,
    };
    vec![load, compare(Comparison::Equal, &[number])]
}

/// Matches packets in one of these states.
pub(super) fn in_state(states: &[CtState]) -> Vec<Expression> {
    let load = Expression::Ct {
        key: CtKey::State,
        into: FIRST,
    };
    let mask = states.iter().fold(0_u32, |mask, state| mask | *state as u32);
    vec![
        load,
        apply_mask(&mask.to_ne_bytes()),
        compare(Comparison::NotEqual, &[0; 4]),
    ]
}

/// Matches packets with none (`Equal`) or any (`NotEqual`) of these TCP flags.
pub(super) fn tcp_flags(of: u8, comparison: Comparison) -> Vec<Expression> {
    let load = payload(PayloadBase::Transport, tcp::FLAGS_OFFSET, 1);
    vec![load, apply_mask(&[of]), compare(comparison, &[0])]
}

pub(super) fn lookup(set: &str, key: Register, into: Destination) -> Expression {
    Expression::Lookup {
        set: set.to_owned(),
        key,
        into,
    }
}

pub(super) fn payload(base: PayloadBase, offset: u32, bytes: u32) -> Expression {
    Expression::Payload {
        base,
        offset,
        bytes,
        into: FIRST,
    }
}

pub(super) fn apply_mask(mask: &[u8]) -> Expression {
    Expression::Mask {
        from: FIRST,
        into: FIRST,
        mask: mask.to_vec(),
    }
}

pub(super) fn compare(comparison: Comparison, value: &[u8]) -> Expression {
    Expression::Compare {
        register: FIRST,
        comparison,
        value: value.to_vec(),
    }
}
