//! The protobuf wire format: a sequence of tagged fields.

use thiserror::Error;

/// Failure to parse the wire format. A retry does not help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum WireError {
    /// The message ends within a field.
    #[error("proto: unexpected end of the message")]
    Truncated,
    /// A varint has more than ten bytes, or exceeds 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// The field number is outside of 1 to 2^29 - 1, or the wire type does not exist.
    #[error("proto: illegal tag {0}")]
    Tag(u64),
    /// An end-of-group tag has no matching start.
    #[error("proto: unexpected end of group")]
    Group,
    /// A field has another wire type than its type.
    #[error("proto: wrong wire type, expected {expected}")]
    Payload {
        /// The expected wire type.
        expected: &'static str,
    },
}

/// Payload of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Payload<'b> {
    /// Variable-length number: integers and booleans.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Strings, bytes, messages and packed lists of numbers.
    Bytes(&'b [u8]),
    /// Four bytes.
    Fixed32,
    /// A group, a deprecated form of message that Kubernetes does not use.
    Group,
}

/// Iterator over the fields of a message, in wire order. It ends after the first error.
#[derive(Clone, Debug)]
pub(super) struct Fields<'b> {
    rest: &'b [u8],
}

impl<'b> Fields<'b> {
    /// Iterates over the fields of a message.
    pub(super) fn of(bytes: &'b [u8]) -> Self {
        Self { rest: bytes }
    }

    fn field(&mut self) -> Result<(u32, Payload<'b>), WireError> {
        let (number, wire_type) = self.tag()?;
        let payload = match wire_type {
            3 => self.group(number)?,
            4 => return Err(WireError::Group),
            wire_type => self.payload(wire_type)?,
        };
        Ok((number, payload))
    }

    fn tag(&mut self) -> Result<(u32, u8), WireError> {
        const NUMBER_MAX: u32 = (1 << 29) - 1;
        let tag = self.varint()?;
        match (u32::try_from(tag >> 3), (tag & 7) as u8) {
            (Ok(number @ 1..=NUMBER_MAX), wire_type @ 0..=5) => Ok((number, wire_type)),
            _ => Err(WireError::Tag(tag)),
        }
    }

    fn payload(&mut self, wire_type: u8) -> Result<Payload<'b>, WireError> {
        match wire_type {
            0 => self.varint().map(Payload::Varint),
            1 => {
                let bytes = self.take(8)?.try_into().map_err(|_| WireError::Truncated)?;
                Ok(Payload::Fixed64(u64::from_le_bytes(bytes)))
            }
            2 => {
                let length = self.varint()?;
                self.take(length).map(Payload::Bytes)
            }
            _ => self.take(4).map(|_| Payload::Fixed32),
        }
    }

    /// Skips a group and its nested groups after its start tag. It counts groups instead of recursing, because a body
    /// may nest them without limit.
    fn group(&mut self, number: u32) -> Result<Payload<'b>, WireError> {
        let mut open = vec![number];
        while let Some(&innermost) = open.last() {
            match self.tag()? {
                (number, 3) => open.push(number),
                (number, 4) if number == innermost => {
                    open.pop();
                }
                (_, 4) => return Err(WireError::Group),
                (_, wire_type) => {
                    self.payload(wire_type)?;
                }
            }
        }
        Ok(Payload::Group)
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let (value, rest) = varint(self.rest)?;
        self.rest = rest;
        Ok(value)
    }

    fn take(&mut self, length: u64) -> Result<&'b [u8], WireError> {
        let length = usize::try_from(length).map_err(|_| WireError::Truncated)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = Result<(u32, Payload<'b>), WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl<'b> Payload<'b> {
    /// Returns the bytes of a string, bytes field or message.
    pub(super) fn bytes(self) -> Result<&'b [u8], WireError> {
        match self {
            Payload::Bytes(bytes) => Ok(bytes),
            _ => Err(WireError::Payload { expected: "bytes" }),
        }
    }

    /// Returns the number of an integer or boolean.
    pub(super) fn varint(self) -> Result<u64, WireError> {
        match self {
            Payload::Varint(number) => Ok(number),
            _ => Err(WireError::Payload { expected: "varint" }),
        }
    }

    /// Returns the number of a double.
    pub(super) fn double(self) -> Result<f64, WireError> {
        match self {
            Payload::Fixed64(bits) => Ok(f64::from_bits(bits)),
            _ => Err(WireError::Payload { expected: "64 bits" }),
        }
    }
}

/// Decodes the varint at the start of `bytes`; returns it with the remaining bytes.
pub(super) fn varint(bytes: &[u8]) -> Result<(u64, &[u8]), WireError> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte holds only the last of the 64 bits.
        if index == 9 && bits > 1 {
            return Err(WireError::Overflow);
        }
        value |= bits << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((value, &bytes[index + 1..]));
        }
    }
    Err(if bytes.len() < 10 {
        WireError::Truncated
    } else {
        WireError::Overflow
    })
}
