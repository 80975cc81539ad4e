//! Allocators of addresses and ports, without I/O. The caller passes random numbers, so that tests reach every
//! choice.
//!
//! Both kinds of range have two bands. Requested values come from either band. Values that the allocator chooses come
//! from the upper band while it has free ones. The lower band thus stays free for requests (KEP-3070, KEP-3668).
//!
//! ```
//! use ipam::{AddressRange, TakeError};
//! let mut range = AddressRange::new("10.96.0.0/24".parse().expect("a CIDR")).expect("a usable range");
//! let requested = "10.96.0.10".parse().expect("an address");
//! assert_eq!(range.take(requested), Ok(()));
//! assert_eq!(range.take(requested), Err(TakeError::Taken));
//! let chosen = range.take_next(&mut |bound: u64| bound - 1);
//! assert_eq!(chosen, Some("10.96.0.254".parse().expect("an address")));
//! ```

mod address_range;
mod offsets;
pub mod pools;
mod port_range;

pub use address_range::{AddressRange, UnusableRange};
pub use port_range::PortRange;

/// Failure to take a requested value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeError {
    /// The value is outside of the range; a retry fails as well.
    #[error("not in the range")]
    OutOfRange,
    /// The value is taken; a retry succeeds after its release.
    #[error("already allocated")]
    Taken,
}

/// A source of random numbers: returns a number below `n`, which is larger than zero.
pub trait Random: FnMut(u64) -> u64 {}

impl<F: FnMut(u64) -> u64> Random for F {}
