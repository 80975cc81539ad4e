//! Domain names in wire form: labels with length prefixes, and the root label at the end.

use std::fmt;

/// Length of the longest name in bytes, with the root label (RFC 1035 section 2.3.4).
const NAME_BYTES_MAX: usize = 255;
/// Length of the longest label in bytes (RFC 1035 section 2.3.4).
pub(crate) const LABEL_BYTES_MAX: usize = 63;
/// Limit of compression pointers in one name. Pointers must point backwards, so loops are impossible; the limit bounds
/// the cost of a message of an attacker.
const POINTERS_MAX: usize = 16;

/// Failure to parse a name. A retry with the same input fails as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A label is longer than 63 bytes.
    #[error("expected labels of at most {LABEL_BYTES_MAX} bytes, found a longer one")]
    LabelTooLong,
    /// A label between two dots is empty.
    #[error("expected labels with at least one byte, found an empty one")]
    LabelEmpty,
    /// The name is longer than 255 bytes.
    #[error("expected a name of at most {NAME_BYTES_MAX} bytes, found a longer one")]
    TooLong,
    /// The message ends within the name, or a pointer does not point backwards.
    #[error("the name ends within the message, or points to no earlier one")]
    Malformed,
}

/// A name of at most 255 bytes, on the stack.
#[derive(Clone, Copy)]
pub struct Name {
    octets: [u8; NAME_BYTES_MAX],
    /// Length in bytes, with the root label.
    length: u8,
}

impl Name {
    /// Root of the DNS, the name without labels.
    pub const ROOT: Self = Self {
        octets: [0; NAME_BYTES_MAX],
        length: 1,
    };

    /// Parses `a.b.c` or `a.b.c.`, without escapes. "" and "." are the root.
    ///
    /// # Errors
    ///
    /// Returns [`NameError`] if a label or the name is too long, or a label is empty.
    pub fn from_text(text: &str) -> Result<Self, NameError> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let mut name = Self::ROOT;
        if text.is_empty() {
            return Ok(name);
        }
        for label in text.split('.') {
            name.push_label(label.as_bytes())?;
        }
        Ok(name)
    }

    /// Reads the name at `offset` of a message, following compression pointers. Also returns the offset after the
    /// name.
    ///
    /// # Errors
    ///
    /// Returns [`NameError`] if the name is malformed or too long.
    pub fn read(message: &[u8], offset: usize) -> Result<(Self, usize), NameError> {
        let mut name = Self::ROOT;
        let (mut at, mut end, mut pointers) = (offset, None, 0);
        loop {
            let length = usize::from(*message.get(at).ok_or(NameError::Malformed)?);
            match length {
                0 => return Ok((name, end.unwrap_or(at + 1))),
                1..=LABEL_BYTES_MAX => {
                    let label = message.get(at + 1..at + 1 + length).ok_or(NameError::Malformed)?;
                    name.push_label(label)?;
                    at += 1 + length;
                }
                0xC0.. => {
                    let low = usize::from(*message.get(at + 1).ok_or(NameError::Malformed)?);
                    let target = (length & 0x3F) << 8 | low;
                    pointers += 1;
                    if target >= at || pointers > POINTERS_MAX {
                        return Err(NameError::Malformed);
                    }
                    end = end.or(Some(at + 2));
                    at = target;
                }
                _ => return Err(NameError::Malformed),
            }
        }
    }

    /// Appends a label before the root.
    ///
    /// # Errors
    ///
    /// Returns [`NameError`] if the label or the name becomes too long.
    pub fn push_label(&mut self, label: &[u8]) -> Result<(), NameError> {
        let length = u8::try_from(label.len()).map_err(|_| NameError::LabelTooLong)?;
        match label.len() {
            0 => return Err(NameError::LabelEmpty),
            1..=LABEL_BYTES_MAX => {}
            _ => return Err(NameError::LabelTooLong),
        }
        let start = usize::from(self.length) - 1;
        let end = start + 1 + label.len();
        let room = self.octets.get_mut(start..=end).ok_or(NameError::TooLong)?;
        if let [first, middle @ .., root] = room {
            *first = length;
            middle.copy_from_slice(label);
            *root = 0;
        }
        self.length = u8::try_from(end + 1).map_err(|_| NameError::TooLong)?;
        Ok(())
    }

    /// Returns the name with a label appended.
    ///
    /// # Errors
    ///
    /// Returns [`NameError`] if the label or the name becomes too long.
    pub fn with_label(mut self, label: &[u8]) -> Result<Self, NameError> {
        self.push_label(label)?;
        Ok(self)
    }

    /// Appends labels in wire form, with or without the root label.
    ///
    /// # Errors
    ///
    /// Returns [`NameError`] if the labels are malformed or the name becomes too long.
    pub fn push_wire(&mut self, labels: &[u8]) -> Result<(), NameError> {
        let mut rest = labels;
        while let [length, tail @ ..] = rest
            && *length != 0
        {
            let (label, behind) = tail
                .split_at_checked(usize::from(*length))
                .ok_or(NameError::Malformed)?;
            self.push_label(label)?;
            rest = behind;
        }
        Ok(())
    }

    /// Returns the wire form with the root label.
    pub fn as_wire(&self) -> &[u8] {
        self.octets.get(..usize::from(self.length)).unwrap_or(&[0])
    }

    /// Returns the wire form from `offset` on, with the root label.
    pub fn from_offset(&self, offset: usize) -> &[u8] {
        self.as_wire().get(offset..).unwrap_or(&[0])
    }

    /// Returns the name in lower case (RFC 4343). Length bytes are below `A`, so all bytes can be treated alike.
    pub fn to_lower(mut self) -> Self {
        self.octets.make_ascii_lowercase();
        self
    }

    /// Returns the name with the case of each ASCII letter set by `is_upper`, which is called once per letter.
    pub fn with_case(mut self, mut is_upper: impl FnMut() -> bool) -> Self {
        // As in `to_lower`, length bytes are not letters.
        for octet in self.octets.iter_mut().filter(|octet| octet.is_ascii_alphabetic()) {
            *octet = if is_upper() {
                octet.to_ascii_uppercase()
            } else {
                octet.to_ascii_lowercase()
            };
        }
        self
    }

    /// Returns the labels from left to right, each with its offset in the wire form.
    pub fn labels(&self) -> Labels<'_> {
        Labels {
            wire: self.as_wire(),
            offset: 0,
        }
    }

    /// Returns true if this name is `other` or below it. Both are in lower case.
    pub fn is_within(&self, other: &Name) -> bool {
        self.suffix_offset(other).is_some()
    }

    /// Returns the offset of `zone` in this name, if the name is the zone or below it. Both are in lower case.
    pub fn suffix_offset(&self, zone: &Name) -> Option<usize> {
        let offset = usize::from(self.length).checked_sub(usize::from(zone.length))?;
        let aligned = offset == usize::from(self.length) - 1 || self.labels().any(|(at, _)| at == offset);
        (aligned && self.from_offset(offset) == zone.as_wire()).then_some(offset)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_wire() == other.as_wire()
    }
}

impl Eq for Name {}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.length == 1 {
            return f.write_str(".");
        }
        self.labels()
            .try_for_each(|(_, label)| write!(f, "{}.", label.escape_ascii()))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Iterator over the labels of a name; see [`Name::labels`].
pub struct Labels<'a> {
    wire: &'a [u8],
    offset: usize,
}

impl<'a> Iterator for Labels<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.offset;
        let length = usize::from(*self.wire.get(at)?);
        if length == 0 {
            return None;
        }
        let label = self.wire.get(at + 1..at + 1 + length)?;
        self.offset = at + 1 + length;
        Some((at, label))
    }
}
