//! Buffer through which the connections of a thread copy their data.

use std::cell::RefCell;

/// Bytes of one read. A direction whose receiver is slow holds at most this number of bytes.
const BUFFER_BYTES: usize = 64 << 10;

thread_local! {
    /// Shared by all connections of a thread: idle connections hold no buffer.
    pub(super) static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER_BYTES].into());
}
