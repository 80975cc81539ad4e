//! Kernel settings, written where the `sysctl` program writes them.

use std::io;

/// Sets `name` (`net.ipv4.ip_forward`, dots for slashes) in the network namespace of the calling thread.
/// Not there (`NotFound`) where the kernel lacks the feature; `EROFS` where `/proc/sys` is read-only.
pub fn write_sysctl(name: &str, value: &str) -> io::Result<()> {
    std::fs::write(format!("/proc/sys/{}", name.replace('.', "/")), value)
}
