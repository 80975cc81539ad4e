//! UIDs in 16 bytes where possible.

use std::borrow::Cow;

/// Length of a UUID in text form.
const UUID_CHARACTERS: usize = 36;

/// The UID of an object. API servers generate UUIDs, whose 16 bytes are kept. Another text is kept as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Uid(Form);

/// Form in which a UID is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    Uuid([u8; 16]),
    Text(Box<str>),
}

impl Uid {
    /// Creates a UID from its text.
    pub(crate) fn new(text: &str) -> Self {
        Self(match uuid_of(text) {
            Some(uuid) => Form::Uuid(uuid.to_be_bytes()),
            None => Form::Text(text.into()),
        })
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match &self.0 {
            Form::Uuid(bytes) => Cow::Owned(text_of(u128::from_be_bytes(*bytes))),
            Form::Text(text) => Cow::Borrowed(text),
        }
    }
}

/// Reads a UUID of lower-case digits; `None` if another text would result from it.
fn uuid_of(text: &str) -> Option<u128> {
    if text.len() != UUID_CHARACTERS {
        return None;
    }
    let uuid = u128::from_str_radix(&text.replace('-', ""), 16).ok()?;
    (text_of(uuid) == text).then_some(uuid)
}

fn text_of(uuid: u128) -> String {
    let digits = format!("{uuid:032x}");
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    let (first, second, third) = (part(0, 8), part(8, 12), part(12, 16));
    format!("{first}-{second}-{third}-{}-{}", part(16, 20), part(20, 32))
}

#[cfg(test)]
mod tests;
