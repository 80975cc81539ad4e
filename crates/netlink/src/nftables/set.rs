//! Sets and maps, and the types of their keys and values.

use crate::message::{Attributes, Writer};

use super::comment;
use super::wire;

/// Bits of one field in the number of a concatenated type (`TYPE_BITS` of nft).
const TYPE_BITS: u32 = 6;
/// Padding of a field in bytes: one register.
const PADDED: usize = 4;
/// User data that states the byte order of keys and of values for nft: host byte order.
const KEY_BYTE_ORDER: u8 = 0;
const DATA_BYTE_ORDER: u8 = 1;
const HOST_ENDIAN: u32 = 1;

/// A field of a key or value. Types are those of the `nft` program, so that it can print them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `ipv4_addr`, four bytes.
    Ipv4,
    /// `ipv6_addr`, 16 bytes.
    Ipv6,
    /// `ether_addr`, six bytes.
    Ethernet,
    /// `inet_proto`, one byte.
    Protocol,
    /// `inet_service`, two bytes in network byte order.
    Port,
    /// `mark`, 32 bits in host byte order.
    Mark,
}

impl Field {
    /// Returns the size in bytes, without padding.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Ipv4 | Self::Mark => 4,
            Self::Ipv6 => 16,
            Self::Ethernet => 6,
            Self::Protocol => 1,
            Self::Port => 2,
        }
    }

    /// Returns the size in bytes with padding, as in keys and values.
    pub const fn padded_bytes(self) -> usize {
        self.bytes().next_multiple_of(PADDED)
    }

    /// Returns nft's number of the type (`enum datatypes`).
    const fn number(self) -> u32 {
        match self {
            Self::Ipv4 => 7,
            Self::Ipv6 => 8,
            Self::Ethernet => 9,
            Self::Protocol => 12,
            Self::Port => 13,
            Self::Mark => 19,
        }
    }
}

/// Type of the values of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetValue {
    /// No values: a set.
    None,
    /// Verdicts. The cost of a change grows with the number of all verdicts, because the kernel searches for loops.
    Verdict,
    /// Concatenated fields.
    Fields(Vec<Field>),
}

/// A set or map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// Name, unique in its table.
    pub name: String,
    /// Fields of the keys.
    pub key: Vec<Field>,
    /// Type of the values.
    pub value: SetValue,
    /// True if elements are ranges of keys.
    pub is_interval: bool,
    /// Maximum number of elements, if these have timeouts and rules may add them.
    pub dynamic_size: Option<u32>,
    /// Comment, which `nft` shows; "" for no comment.
    pub comment: String,
}

impl Set {
    /// Returns the size of a key in bytes.
    pub fn key_bytes(&self) -> usize {
        padded_bytes(&self.key)
    }

    /// Appends the attributes of a declaration; `id` names the set within its batch.
    pub(super) fn encode(&self, writer: &mut Writer, table: &str, id: u32) {
        writer
            .text(wire::SET_TABLE, table)
            .text(wire::SET_NAME, &self.name)
            .u32_be(wire::SET_FLAGS, self.flags())
            .u32_be(wire::SET_KEY_TYPE, number(&self.key))
            .u32_be(wire::SET_KEY_LEN, padded_bytes(&self.key) as u32)
            .u32_be(wire::SET_ID, id);
        match &self.value {
            SetValue::None => {}
            SetValue::Verdict => {
                writer
                    .u32_be(wire::SET_DATA_TYPE, wire::DATA_TYPE_VERDICT)
                    .u32_be(wire::SET_DATA_LEN, 0);
            }
            SetValue::Fields(fields) => {
                writer
                    .u32_be(wire::SET_DATA_TYPE, number(fields))
                    .u32_be(wire::SET_DATA_LEN, padded_bytes(fields) as u32);
            }
        }
        self.encode_description(writer);
        let user_data = self.user_data();
        if !user_data.is_empty() {
            writer.attribute(wire::SET_USERDATA, &user_data);
        }
    }

    fn encode_description(&self, writer: &mut Writer) {
        let description = writer.nest(wire::SET_DESC);
        if let Some(size) = self.dynamic_size {
            writer.u32_be(wire::SET_DESC_SIZE, size);
        }
        if self.is_interval && self.key.len() > 1 {
            let fields = writer.nest(wire::SET_DESC_CONCAT);
            for field in &self.key {
                let item = writer.nest(wire::LIST_ELEMENT);
                writer.u32_be(wire::SET_FIELD_LEN, field.bytes() as u32).end(item);
            }
            writer.end(fields);
        }
        writer.end(description);
    }

    fn flags(&self) -> u32 {
        let mut flags = 0;
        if self.value != SetValue::None {
            flags |= wire::SET_MAP;
        }
        if self.dynamic_size.is_some() {
            flags |= wire::SET_TIMEOUT | wire::SET_EVAL;
        }
        if self.is_interval {
            flags |= wire::SET_INTERVAL;
            if self.key.len() > 1 {
                flags |= wire::SET_CONCAT;
            }
        }
        flags
    }

    fn user_data(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut byte_order = |kind: u8, fields: &[Field]| {
            if fields == [Field::Mark] {
                bytes.extend_from_slice(&[kind, 4]);
                bytes.extend_from_slice(&HOST_ENDIAN.to_ne_bytes());
            }
        };
        byte_order(KEY_BYTE_ORDER, &self.key);
        if let SetValue::Fields(fields) = &self.value {
            byte_order(DATA_BYTE_ORDER, fields);
        }
        comment::append(&mut bytes, comment::Owner::Set, &self.comment);
        bytes
    }

    /// Decodes a declaration: the table and the set. `None` for anonymous sets and for types without a variant here.
    pub(super) fn decode(attributes: Attributes<'_>) -> Option<(String, Self)> {
        let (mut table, mut name, mut comment, mut size) = (None, None, None, None);
        let (mut flags, mut key, mut data) = (0, 0, 0);
        for attribute in attributes {
            match attribute.kind {
                wire::SET_TABLE => table = attribute.text(),
                wire::SET_NAME => name = attribute.text(),
                wire::SET_FLAGS => flags = attribute.u32_be()?,
                wire::SET_KEY_TYPE => key = attribute.u32_be()?,
                wire::SET_DATA_TYPE => data = attribute.u32_be()?,
                wire::SET_DESC => {
                    let found = attribute.nested().find(|inner| inner.kind == wire::SET_DESC_SIZE);
                    size = found.and_then(|inner| inner.u32_be());
                }
                wire::SET_USERDATA => comment = comment::read(attribute.value, comment::Owner::Set),
                _ => {}
            }
        }
        let value = match data {
            _ if flags & wire::SET_MAP == 0 => SetValue::None,
            wire::DATA_TYPE_VERDICT => SetValue::Verdict,
            number => SetValue::Fields(fields(number)?),
        };
        let set = Self {
            name: name?.to_owned(),
            key: fields(key)?,
            value,
            is_interval: flags & wire::SET_INTERVAL != 0,
            dynamic_size: size.filter(|_| flags & wire::SET_EVAL != 0),
            comment: comment.unwrap_or_default().to_owned(),
        };
        let named = flags & wire::SET_ANONYMOUS == 0;
        named.then_some((table?.to_owned(), set))
    }
}

fn padded_bytes(fields: &[Field]) -> usize {
    fields.iter().map(|field| field.padded_bytes()).sum()
}

/// Returns nft's number of a concatenated type.
fn number(fields: &[Field]) -> u32 {
    fields
        .iter()
        .fold(0, |number, field| number << TYPE_BITS | field.number())
}

/// Returns the fields of a concatenated type.
fn fields(mut number: u32) -> Option<Vec<Field>> {
    const ALL: [Field; 6] = [
        Field::Ipv4,
        Field::Ipv6,
        Field::Ethernet,
        Field::Protocol,
        Field::Port,
        Field::Mark,
    ];
    let mut fields = Vec::new();
    while number != 0 {
        let last = number & ((1 << TYPE_BITS) - 1);
        fields.push(ALL.into_iter().find(|field| field.number() == last)?);
        number >>= TYPE_BITS;
    }
    fields.reverse();
    Some(fields)
}
