//! Kernel settings below `/proc/sys`.

use std::io;

/// Sets `name` (`net.ipv4.ip_forward`, dots for slashes) in the network namespace of the calling thread.
///
/// # Errors
///
/// Returns `NotFound` if the kernel lacks the feature, and `EROFS` if `/proc/sys` is read-only.
pub fn write_sysctl(name: &str, value: &str) -> io::Result<()> {
    std::fs::write(format!("/proc/sys/{}", name.replace('.', "/")), value)
}
