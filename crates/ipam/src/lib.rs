//! Allocators of addresses and ports, without I/O: which are taken, which is next. Where randomness is
//! needed it is passed in, so that tests reach every choice.
//!
//! Both kinds of range have two bands. Requested values come from anywhere; values that the allocator
//! chooses come from the upper band as long as it has one, so that the lower band stays free for requests
//! (KEP-3070, KEP-3668).

mod address_range;
mod offsets;
pub mod pools;
mod port_range;

pub use address_range::{AddressRange, UnusableRange};
pub use port_range::PortRange;

/// Why a requested value cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeError {
    /// The value lies outside of the range; another request is needed.
    #[error("not in the range")]
    OutOfRange,
    /// The value is taken; retrying helps once its holder has released it.
    #[error("already allocated")]
    Taken,
}

/// A source of randomness: given `n`, larger than zero, a number below `n`.
pub trait Random: FnMut(u64) -> u64 {}

impl<F: FnMut(u64) -> u64> Random for F {}
