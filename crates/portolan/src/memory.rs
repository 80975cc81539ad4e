//! How the C library keeps memory.

/// Arenas of the allocator. By default there are eight for each core, and each keeps what a burst once needed:
/// loading 10,000 Services then costs twice the memory that they take. Two still serve two busy threads.
#[cfg(target_env = "gnu")]
const ARENAS_MAX: i32 = 2;

/// Bounds the memory that the allocator keeps. To be called before any thread is started.
pub fn bound() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt sets a number; no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS_MAX);
    }
}
