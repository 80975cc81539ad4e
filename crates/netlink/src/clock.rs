//! The clock that goes on while the machine sleeps.

use std::mem::MaybeUninit;
use std::time::Duration;

/// The time since the machine was booted (`CLOCK_BOOTTIME`): steady, never set, and not stopped by a suspended machine
/// or a stopped process.
pub fn since_boot() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer is valid for a timespec, and all zeros are one, should the call fail.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_BOOTTIME, time.as_mut_ptr());
        time.assume_init()
    };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
