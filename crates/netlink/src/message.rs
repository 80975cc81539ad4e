//! The bytes of netlink (`linux/netlink.h`): messages and attributes, written and read.
//!
//! Writing never fails: whoever writes knows what fits. Reading never panics, whatever the bytes are: an
//! iterator ends where its bytes stop making sense, and a value of the wrong size reads as `None`.

/// Bytes of `struct nlmsghdr`.
pub const HEADER_BYTES: usize = 16;
/// Bytes of `struct nlattr`.
pub const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// Most bytes that an attribute can hold: its length, header included, has 16 bits.
pub const ATTRIBUTE_BYTES_MAX: usize = u16::MAX as usize - ATTRIBUTE_HEADER_BYTES;

/// Flag of an attribute's type: it holds attributes (`NLA_F_NESTED`).
const NESTED: u16 = 1 << 15;
/// Bits of an attribute's type that are its number (`NLA_TYPE_MASK`).
const KIND_MASK: u16 = 0x3fff;

/// Messages being written, one after the other, in one buffer.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    /// Where the last message begins.
    message: usize,
}

/// An open attribute that holds attributes; closed by [`Writer::end`].
#[derive(Debug)]
#[must_use = "an attribute that is not ended has no length"]
pub struct Nest(usize);

impl Writer {
    /// A writer with room for `bytes`.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            message: 0,
        }
    }

    /// Begins a message of `kind` with `flags` (`NLM_F_…`), ending the one before it.
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

    /// Appends the fixed part that follows the header, padded to four bytes.
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

    /// Appends a number of this machine's byte order.
    pub fn u32(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    /// Appends a number of network byte order, as netfilter has them.
    pub fn u32_be(&mut self, kind: u16, value: u32) -> &mut Self {
        self.attribute(kind, &value.to_be_bytes())
    }

    /// Appends a text, with the zero that ends it.
    pub fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        self.header(kind, value.len() + 1);
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(0);
        self.pad()
    }

    /// Opens an attribute that holds attributes.
    pub fn nest(&mut self, kind: u16) -> Nest {
        let at = self.bytes.len();
        self.header(kind | NESTED, 0);
        Nest(at)
    }

    /// Closes an attribute that holds attributes.
    pub fn end(&mut self, nest: Nest) -> &mut Self {
        let length = (self.bytes.len() - nest.0) as u16;
        self.bytes[nest.0..nest.0 + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    /// Bytes in an open attribute so far.
    pub fn bytes_in(&self, nest: &Nest) -> usize {
        self.bytes.len() - nest.0 - ATTRIBUTE_HEADER_BYTES
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Ends the last message; all messages as they go to the kernel.
    pub fn finish(&mut self) -> &[u8] {
        if self.bytes.len() >= self.message + HEADER_BYTES {
            let length = (self.bytes.len() - self.message) as u32;
            self.bytes[self.message..self.message + 4].copy_from_slice(&length.to_ne_bytes());
        }
        &self.bytes
    }

    /// Sets flags of the last message, on top of those it has.
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
        self.bytes.resize(aligned(self.bytes.len()), 0);
        self
    }
}

/// A message that was read.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its type.
    pub kind: u16,
    /// `NLM_F_…`.
    pub flags: u16,
    /// The number of the request that it answers.
    pub sequence: u32,
    /// What follows the header.
    pub payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// The attributes that follow a fixed part of so many bytes.
    pub fn attributes(&self, fixed_bytes: usize) -> Attributes<'a> {
        attributes(self.payload.get(aligned(fixed_bytes)..).unwrap_or_default())
    }
}

/// The messages of a datagram.
pub fn messages(bytes: &[u8]) -> Messages<'_> {
    Messages { rest: bytes }
}

/// See [`messages`].
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
        self.rest = self.rest.get(aligned(length)..).unwrap_or_default();
        Some(Message {
            kind: u16::from_ne_bytes([k0, k1]),
            flags: u16::from_ne_bytes([f0, f1]),
            sequence: u32::from_ne_bytes([s0, s1, s2, s3]),
            payload,
        })
    }
}

/// An attribute that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Its number, without flags.
    pub kind: u16,
    /// What it holds.
    pub value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// A byte.
    pub fn u8(&self) -> Option<u8> {
        <[u8; 1]>::try_from(self.value).ok().map(|[byte]| byte)
    }

    /// A number of this machine's byte order.
    pub fn u32(&self) -> Option<u32> {
        self.value.try_into().ok().map(u32::from_ne_bytes)
    }

    /// A number of network byte order.
    pub fn u16_be(&self) -> Option<u16> {
        self.value.try_into().ok().map(u16::from_be_bytes)
    }

    /// A number of network byte order.
    pub fn u32_be(&self) -> Option<u32> {
        self.value.try_into().ok().map(u32::from_be_bytes)
    }

    /// A number of network byte order.
    pub fn u64_be(&self) -> Option<u64> {
        self.value.try_into().ok().map(u64::from_be_bytes)
    }

    /// A text up to its zero; `None` if it is not UTF-8.
    pub fn text(&self) -> Option<&'a str> {
        let end = self.value.iter().position(|&byte| byte == 0);
        let bytes = self.value.get(..end.unwrap_or(self.value.len()))?;
        std::str::from_utf8(bytes).ok()
    }

    /// The attributes that it holds.
    pub fn nested(&self) -> Attributes<'a> {
        attributes(self.value)
    }
}

/// The attributes in some bytes.
pub fn attributes(bytes: &[u8]) -> Attributes<'_> {
    Attributes { rest: bytes }
}

/// See [`attributes`].
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
        self.rest = self.rest.get(aligned(length)..).unwrap_or_default();
        Some(Attribute {
            kind: u16::from_ne_bytes([k0, k1]) & KIND_MASK,
            value,
        })
    }
}

/// The next multiple of four (`NLMSG_ALIGN`, `NLA_ALIGN`).
const fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

#[cfg(test)]
mod tests;
