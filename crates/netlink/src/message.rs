//! Codec of netlink messages and attributes (`linux/netlink.h`).
//!
//! Writing never fails, because callers stay within the limits. Reading never panics: an iterator ends at the first
//! malformed bytes, and a value of the wrong size reads as `None`.

/// Size of `struct nlmsghdr` in bytes.
pub const HEADER_BYTES: usize = 16;
/// Size of `struct nlattr` in bytes.
pub const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// Maximum size of an attribute's value in bytes: the length, header included, has 16 bits.
pub const ATTRIBUTE_BYTES_MAX: usize = u16::MAX as usize - ATTRIBUTE_HEADER_BYTES;

/// Flag of an attribute type: the value consists of attributes (`NLA_F_NESTED`).
const NESTED: u16 = 1 << 15;
/// Bits of the number in an attribute type (`NLA_TYPE_MASK`).
const KIND_MASK: u16 = 0x3fff;

/// Writer of consecutive messages in one buffer.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    /// Offset of the current message.
    message: usize,
}

/// An open nested attribute; [`Writer::end`] closes it.
#[derive(Debug)]
#[must_use = "an attribute that is not ended has no length"]
pub struct NestedAttribute(usize);

impl Writer {
    /// Creates a writer with room for `bytes`.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            message: 0,
        }
    }

    /// Starts a message of `kind` with `flags` (`NLM_F_…`) and ends the previous one.
    pub fn begin(&mut self, kind: u16, flags: i32, sequence: u32) -> &mut Self {
        self.finish();
        self.message = self.bytes.len();
        self.bytes.extend_from_slice(&0u32.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&(flags as u16).to_ne_bytes());
        self.bytes.extend_from_slice(&sequence.to_ne_bytes());
        self.bytes.extend_from_slice(&0u32.to_ne_bytes());
        self
    }

    /// Appends the fixed part after the header, padded to four bytes.
    pub fn fixed(&mut self, part: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(part);
        self.pad()
    }

    /// Appends an attribute of at most [`ATTRIBUTE_BYTES_MAX`] bytes.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.header(kind, value.len());
        self.bytes.extend_from_slice(value);
        self.pad()
    }

    /// Appends a number in host byte order.
    pub fn u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Appends a number in network byte order, as netfilter requires.
    pub fn u32_be(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attribute(kind, &value.to_be_bytes())
    }

    /// Appends a text with its terminating zero.
    pub fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        self.header(kind, value.len() + 1);
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(0);
        self.pad()
    }

    /// Opens a nested attribute.
    pub fn nest(&mut self, kind: u16) -> NestedAttribute {
        let at = self.bytes.len();
        self.header(kind | NESTED, 0);
        NestedAttribute(at)
    }

    /// Closes a nested attribute.
    pub fn end(&mut self, nest: NestedAttribute) -> &mut Self {
        let length = (self.bytes.len() - nest.0) as u16;
        self.bytes[nest.0..nest.0 + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// Returns the number of bytes in an open nested attribute.
    pub fn bytes_in(&self, nest: &NestedAttribute) -> usize {
        self.bytes.len() - nest.0 - ATTRIBUTE_HEADER_BYTES
    }

    /// Returns the number of bytes written.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns true if nothing is written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Ends the last message and returns all messages.
    pub fn finish(&mut self) -> &[u8] {
        if self.bytes.len() >= self.message + HEADER_BYTES {
            let length = (self.bytes.len() - self.message) as u32;
            self.bytes[self.message..self.message + 4].copy_from_slice(&length.to_ne_bytes());
        }
        &self.bytes
    }

    /// Adds flags to the current message.
    pub fn add_flags(&mut self, flags: i32) -> &mut Self {
        let at = self.message + 6;
        if let Some(slot) = self.bytes.get_mut(at..at + 2) {
            let old = u16::from_ne_bytes([slot[0], slot[1]]);
            slot.copy_from_slice(&(old | flags as u16).to_ne_bytes());
        }
        self
    }

    fn header(&mut self, kind: u16, value_bytes: usize) {
        debug_assert!(value_bytes <= ATTRIBUTE_BYTES_MAX);
        let length = (ATTRIBUTE_HEADER_BYTES + value_bytes) as u16;
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
    }

    fn pad(&mut self) -> &mut Self {
        self.bytes.resize(align_to_four(self.bytes.len()), 0);
        self
    }
}

/// A received message.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Message type.
    pub kind: u16,
    /// Flags (`NLM_F_…`).
    pub flags: u16,
    /// Sequence number of the request.
    pub sequence: u32,
    /// Bytes after the header.
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// Returns the attributes after a fixed part of `fixed_bytes` bytes.
    pub fn attributes(&self, fixed_bytes: usize) -> Attributes<'a> {
        attributes(self.payload.get(align_to_four(fixed_bytes)..).unwrap_or_default())
    }
}

/// Returns the messages of a datagram.
pub fn messages(bytes: &[u8]) -> Messages<'_> {
    Messages { rest: bytes }
}

/// Iterator of [`messages`].
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let header = self.rest.first_chunk::<HEADER_BYTES>()?;
        let [l0, l1, l2, l3, k0, k1, f0, f1, s0, s1, s2, s3, ..] = *header;
        let length = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
        let payload = self.rest.get(HEADER_BYTES..length)?;
        self.rest = self.rest.get(align_to_four(length)..).unwrap_or_default();
        Some(Message {
            kind: u16::from_ne_bytes([k0, k1]),
            flags: u16::from_ne_bytes([f0, f1]),
            sequence: u32::from_ne_bytes([s0, s1, s2, s3]),
            payload,
        })
    }
}

/// A received attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Number, without flags.
    pub kind: u16,
    /// Payload without padding.
    pub value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// Returns a byte.
    pub fn u8(&self) -> Option<u8> {
        <[u8; 1]>::try_from(self.value).ok().map(|[byte]| byte)
    }

    /// Returns a number in host byte order.
    pub fn u32(&self) -> Option<u32> {
        self.value.try_into().ok().map(u32::from_ne_bytes)
    }

    /// Returns a number in network byte order.
    pub fn u16_be(&self) -> Option<u16> {
        self.value.try_into().ok().map(u16::from_be_bytes)
    }

    /// Returns a number in network byte order.
    pub fn u32_be(&self) -> Option<u32> {
        self.value.try_into().ok().map(u32::from_be_bytes)
    }

    /// Returns a number in network byte order.
    pub fn u64_be(&self) -> Option<u64> {
        self.value.try_into().ok().map(u64::from_be_bytes)
    }

    /// Returns a text up to its zero; `None` if it is not UTF-8.
    pub fn text(&self) -> Option<&'a str> {
        let end = self.value.iter().position(|&byte| byte == 0);
        let bytes = self.value.get(..end.unwrap_or(self.value.len()))?;
        std::str::from_utf8(bytes).ok()
    }

    /// Returns the nested attributes.
    pub fn nested(&self) -> Attributes<'a> {
        attributes(self.value)
    }
}

/// Returns the attributes in a byte string.
pub fn attributes(bytes: &[u8]) -> Attributes<'_> {
    Attributes { rest: bytes }
}

/// Iterator of [`attributes`].
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Attribute<'a>;

    fn next(&mut self) -> Option<Attribute<'a>> {
        let [l0, l1, k0, k1] = *self.rest.first_chunk::<ATTRIBUTE_HEADER_BYTES>()?;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = self.rest.get(ATTRIBUTE_HEADER_BYTES..length)?;
        self.rest = self.rest.get(align_to_four(length)..).unwrap_or_default();
        Some(Attribute {
            kind: u16::from_ne_bytes([k0, k1]) & KIND_MASK,
            value,
        })
    }
}

/// Returns the next multiple of four (`NLMSG_ALIGN`, `NLA_ALIGN`).
const fn align_to_four(length: usize) -> usize {
    (length + 3) & !3
}

#[cfg(test)]
mod tests;
