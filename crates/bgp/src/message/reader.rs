//! Reader of numbers from bytes, which never reads past the end.

/// Unread bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'b> {
    bytes: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the unread bytes.
    pub(super) fn rest(&self) -> &'b [u8] {
        self.bytes
    }

    /// Reads `count` bytes; `None` if there are fewer.
    pub(super) fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(super) fn array<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        self.take(COUNT)?.try_into().ok()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }
}
