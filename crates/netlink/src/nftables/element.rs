//! Elements of sets and maps.

use crate::message::{Attribute, Attributes, Writer};

use super::comment;
use super::expression::Verdict;
use super::wire;

/// An element of a set or map. Key and value are bytes as in [`super::Field`], each field padded to four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// Key, or first key of a range; empty for the catch-all element.
    pub key: &'a [u8],
    /// Last key of a range of concatenated fields.
    pub key_end: Option<&'a [u8]>,
    /// True for the first key after a range of single-field keys.
    pub is_interval_end: bool,
    /// Value of a map element.
    pub data: Option<ElementData<'a>>,
    /// Timeout in milliseconds, in sets with timeouts.
    pub timeout_milliseconds: Option<u64>,
    /// Rest of the timeout in milliseconds. Absent in a new element, it is the timeout.
    pub expiration_milliseconds: Option<u64>,
    /// Comment; empty for no comment.
    pub comment: &'a str,
}

/// Value of a map element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementData<'a> {
    /// Concatenated fields.
    Value(&'a [u8]),
    /// A verdict.
    Verdict(Verdict<&'a str>),
}

impl<'a> Element<'a> {
    /// Creates an element of a set.
    pub fn key(key: &'a [u8]) -> Self {
        Self {
            key,
            key_end: None,
            is_interval_end: false,
            data: None,
            timeout_milliseconds: None,
            expiration_milliseconds: None,
            comment: "",
        }
    }

    /// Creates an element of a map.
    pub fn pair(key: &'a [u8], data: ElementData<'a>) -> Self {
        Self {
            data: Some(data),
            ..Self::key(key)
        }
    }

    /// Returns an upper bound of its size in a message.
    pub(super) fn encoded_bytes_max(&self) -> usize {
        let value = match self.data {
            Some(ElementData::Value(value)) => value.len(),
            Some(ElementData::Verdict(verdict)) => 16 + verdict.chain().map_or(0, |chain| chain.len()),
            None => 0,
        };
        96 + self.key.len() + self.key_end.map_or(0, <[u8]>::len) + value + self.comment.len()
    }

    /// Appends the element to a list. Deletions contain the key only.
    pub(super) fn encode(&self, writer: &mut Writer, key_only: bool) {
        let element = writer.nest(wire::LIST_ELEMENT);
        if self.key.is_empty() {
            writer.u32_be(wire::ELEM_FLAGS, wire::ELEM_CATCH_ALL);
        } else {
            encode_value(writer, wire::ELEM_KEY, self.key);
        }
        if let Some(key_end) = self.key_end {
            encode_value(writer, wire::ELEM_KEY_END, key_end);
        }
        if self.is_interval_end {
            writer.u32_be(wire::ELEM_FLAGS, wire::ELEM_INTERVAL_END);
        }
        if !key_only {
            match self.data {
                Some(ElementData::Value(value)) => encode_value(writer, wire::ELEM_DATA, value),
                Some(ElementData::Verdict(verdict)) => verdict.encode(writer, wire::ELEM_DATA),
                None => {}
            }
            if let Some(timeout_milliseconds) = self.timeout_milliseconds {
                writer.attribute(wire::ELEM_TIMEOUT, &timeout_milliseconds.to_be_bytes());
            }
            if let Some(expiration_milliseconds) = self.expiration_milliseconds {
                writer.attribute(wire::ELEM_EXPIRATION, &expiration_milliseconds.to_be_bytes());
            }
            if !self.comment.is_empty() {
                let mut user_data = Vec::with_capacity(self.comment.len() + 3);
                comment::append(&mut user_data, comment::Owner::Most, self.comment);
                writer.attribute(wire::ELEM_USERDATA, &user_data);
            }
        }
        writer.end(element);
    }

    /// Decodes the attributes of an element. `None` if it has no key and is not the catch-all element.
    pub(super) fn decode(attributes: Attributes<'a>) -> Option<Self> {
        let (mut key, mut element) = (None, Self::key(&[]));
        for attribute in attributes {
            match attribute.kind {
                wire::ELEM_KEY => key = decode_value(attribute),
                wire::ELEM_KEY_END => element.key_end = decode_value(attribute),
                wire::ELEM_FLAGS => {
                    let flags = attribute.u32_be()?;
                    element.is_interval_end = flags & wire::ELEM_INTERVAL_END != 0;
                    if flags & wire::ELEM_CATCH_ALL != 0 {
                        key = Some(&[][..]);
                    }
                }
                wire::ELEM_DATA => {
                    element.data = decode_value(attribute)
                        .map(ElementData::Value)
                        .or_else(|| Verdict::decode(attribute).map(ElementData::Verdict));
                }
                wire::ELEM_TIMEOUT => element.timeout_milliseconds = attribute.u64_be(),
                wire::ELEM_EXPIRATION => element.expiration_milliseconds = attribute.u64_be(),
                wire::ELEM_USERDATA => {
                    element.comment =
                        comment::read(attribute.value, comment::Owner::Most).unwrap_or_default();
                }
                _ => {}
            }
        }
        Some(Self { key: key?, ..element })
    }
}

/// Appends a `struct nft_data` with bytes.
pub(super) fn encode_value(writer: &mut Writer, kind: u16, value: &[u8]) {
    let nest = writer.nest(kind);
    writer.attribute(wire::DATA_VALUE, value);
    writer.end(nest);
}

/// Decodes a `struct nft_data` with bytes.
pub(super) fn decode_value<'a>(attribute: Attribute<'a>) -> Option<&'a [u8]> {
    let value = attribute.nested().find(|inner| inner.kind == wire::DATA_VALUE)?;
    Some(value.value)
}
