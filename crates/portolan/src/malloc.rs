//! Memory of the C library's allocator.

/// Maximum number of arenas of the allocator. By default there are eight per core, and each keeps the memory of its
/// peak. With that default, 10,000 Services use twice the memory that they need. Two arenas still serve two busy
/// threads.
#[cfg(target_env = "gnu")]
const ARENAS_MAX: i32 = 2;

/// Limits the memory that the allocator keeps. The caller has not started any thread yet.
pub(crate) fn limit_arenas() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt sets a number; no other thread runs yet.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS_MAX);
    }
}

/// Returns free memory of all arenas to the kernel. It takes less than a millisecond for a heap of some ten MiB.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim changes only memory that is free, and locks each arena meanwhile.
    unsafe {
        libc::malloc_trim(0);
    }
}
