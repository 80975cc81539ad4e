//! Elements of sets and maps.

use crate::message::{Attribute, Attributes, Writer};

use super::comment;
use super::expression::Verdict;
use super::wire;

/// An element of a set or map; key and value are bytes as [`super::Field`] says, each field padded to four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// The key; the first one of a range; none for all that no other element has.
    pub key: &'a [u8],
    /// The last key of a range, in sets of intervals over several fields.
    pub key_end: Option<&'a [u8]>,
    /// Whether this is the first key behind a range, in sets of intervals over one field.
    pub is_interval_end: bool,
    /// What a map holds for the key.
    pub data: Option<ElementData<'a>>,
    /// After how many milliseconds it goes by itself, in sets whose elements do.
    pub timeout_ms: Option<u64>,
    /// A comment; empty for none.
    pub comment: &'a str,
}

/// What a map holds for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementData<'a> {
    /// Bytes.
    Value(&'a [u8]),
    /// A verdict.
    Verdict(Verdict<&'a str>),
}

impl<'a> Element<'a> {
    /// An element of a set.
    pub fn key(key: &'a [u8]) -> Self {
        Self {
            key,
            key_end: None,
            is_interval_end: false,
            data: None,
            timeout_ms: None,
            comment: "",
        }
    }

    /// An element of a map.
    pub fn pair(key: &'a [u8], data: ElementData<'a>) -> Self {
        Self {
            data: Some(data),
            ..Self::key(key)
        }
    }

    /// Bytes that it takes in a message, or a few more.
    pub(super) fn encoded_bytes_max(&self) -> usize {
        let value = match self.data {
            Some(ElementData::Value(value)) => value.len(),
            Some(ElementData::Verdict(verdict)) => 16 + verdict.chain().map_or(0, |chain| chain.len()),
            None => 0,
        };
        80 + self.key.len() + self.key_end.map_or(0, <[u8]>::len) + value + self.comment.len()
    }

    /// Appends the element to a list. What is deleted is named by its key alone.
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
            if let Some(timeout_ms) = self.timeout_ms {
                writer.attribute(wire::ELEM_TIMEOUT, &timeout_ms.to_be_bytes());
            }
            if !self.comment.is_empty() {
                let mut user_data = Vec::with_capacity(self.comment.len() + 3);
                comment::append(&mut user_data, comment::Owner::Most, self.comment);
                writer.attribute(wire::ELEM_USERDATA, &user_data);
            }
        }
        writer.end(element);
    }

    /// Reads the attributes of an element. `None` for one that has no key and does not say that it stands for all.
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
                wire::ELEM_TIMEOUT => element.timeout_ms = attribute.u64_be(),
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

/// Appends `struct nft_data` that holds bytes.
pub(super) fn encode_value(writer: &mut Writer, kind: u16, value: &[u8]) {
    let nest = writer.nest(kind);
    writer.attribute(wire::DATA_VALUE, value);
    writer.end(nest);
}

/// Reads `struct nft_data` that holds bytes.
pub(super) fn decode_value<'a>(attribute: Attribute<'a>) -> Option<&'a [u8]> {
    let value = attribute.nested().find(|inner| inner.kind == wire::DATA_VALUE)?;
    Some(value.value)
}
