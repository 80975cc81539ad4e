//! Identifiers of routing tables.

/// Number of a routing table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteTable(pub u32);

impl RouteTable {
    /// Table `local`: addresses of this host.
    pub const LOCAL: Self = Self(libc::RT_TABLE_LOCAL as u32);
    /// Table `main`.
    pub const MAIN: Self = Self(libc::RT_TABLE_MAIN as u32);

    /// Returns the number for the one-byte fields of fixed parts. Tables above 255 have it in an attribute only.
    pub(super) fn byte(self) -> u8 {
        u8::try_from(self.0).unwrap_or(libc::RT_TABLE_UNSPEC)
    }
}
