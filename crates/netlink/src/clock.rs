//! Clock that continues during suspend.

use std::mem::MaybeUninit;
use std::time::Duration;

/// Returns the time since boot (`CLOCK_BOOTTIME`). It is monotonic, is never set, and includes suspend.
pub fn since_boot() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer is valid for a timespec; the zeroed value is valid if the call fails.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_BOOTTIME, time.as_mut_ptr());
        time.assume_init()
    };
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
