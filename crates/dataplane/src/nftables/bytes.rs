//! Keys and values of maps as bytes. Each field is padded to a multiple of four bytes, the size of a register.

use std::hash::{Hash, Hasher};
use std::net::IpAddr;

/// Longest key: client and cluster IP (both IPv6), protocol and port.
const BYTES_MAX: usize = 44;

/// A key or value of a map, stored inline.
#[derive(Clone, Copy)]
pub(super) struct MapBytes {
    bytes: [u8; BYTES_MAX],
    length: u8,
}

impl MapBytes {
    /// Creates an empty key.
    pub(super) const fn new() -> Self {
        Self {
            bytes: [0; BYTES_MAX],
            length: 0,
        }
    }

    /// Copies a key that was read; returns `None` if it is longer than every key of the layout.
    pub(super) fn from_slice(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= BYTES_MAX).then(|| Self::new().append(bytes, bytes.len()))
    }

    /// Appends an address.
    pub(super) fn address(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.append(&address.octets(), 4),
            IpAddr::V6(address) => self.append(&address.octets(), 16),
        }
    }

    /// Appends a protocol number.
    pub(super) fn protocol(self, number: u8) -> Self {
        self.append(&[number], 4)
    }

    /// Appends a port.
    pub(super) fn port(self, port: u16) -> Self {
        self.append(&port.to_be_bytes(), 4)
    }

    /// Appends a number that nft shows as a mark.
    pub(super) fn mark(self, number: u32) -> Self {
        self.append(&number.to_ne_bytes(), 4)
    }

    /// Appends the bytes of another key.
    pub(super) fn key(self, key: &Self) -> Self {
        self.append(key.as_slice(), key.as_slice().len())
    }

    /// Returns the bytes.
    pub(super) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }

    /// Appends a field that takes `padded` bytes. Bytes beyond the longest key are cut; no key of the layout reaches
    /// that length.
    fn append(mut self, field: &[u8], padded: usize) -> Self {
        let start = usize::from(self.length);
        debug_assert!(start + padded <= BYTES_MAX);
        if let Some(slot) = self.bytes.get_mut(start..start + field.len()) {
            slot.copy_from_slice(field);
            self.length = (start + padded) as u8;
        }
        self
    }
}

impl PartialEq for MapBytes {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for MapBytes {}

impl PartialOrd for MapBytes {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for MapBytes {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl Hash for MapBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl std::fmt::Debug for MapBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_slice().fmt(f)
    }
}
