//! State of TCP connections (`struct tcp_info` of `linux/tcp.h`), and constants of TCP headers (RFC 9293, 3.1).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Protocol number of TCP in the IP header.
pub const PROTOCOL: u8 = libc::IPPROTO_TCP as u8;
/// Offset of the flags in a TCP header.
pub const FLAGS_OFFSET: u32 = 13;
/// FIN flag.
pub const FIN: u8 = 1;
/// SYN flag.
pub const SYN: u8 = 2;
/// RST flag.
pub const RST: u8 = 4;
/// ACK flag.
pub const ACK: u8 = 16;

/// Offset of `tcpi_options`, and the bit for timestamps on both sides (`TCPI_OPT_TIMESTAMPS`).
const OPTIONS_OFFSET: usize = 5;
const TIMESTAMPS: u8 = 1;
/// Offset of the minimum round-trip time in microseconds (`tcpi_min_rtt`, since Linux 4.9).
const MIN_RTT_OFFSET: usize = 148;
/// Size of the structure up to there, in bytes.
const INFO_BYTES: usize = MIN_RTT_OFFSET + 4;

/// Returns the minimum round-trip time of a connection; `None` if it is unknown.
///
/// # Errors
///
/// The error of `getsockopt(2)`.
pub fn min_round_trip(connection: BorrowedFd<'_>) -> io::Result<Option<Duration>> {
    let mut info = [0_u8; INFO_BYTES];
    let info_bytes = read_info(connection, &mut info)?;
    let bytes = info_bytes
        .get(MIN_RTT_OFFSET..INFO_BYTES)
        .and_then(<[u8]>::first_chunk);
    let microseconds = bytes.copied().map(u32::from_ne_bytes);
    // The kernel's initial value is not a valid round-trip time.
    let seen = microseconds.filter(|microseconds| !matches!(*microseconds, 0 | u32::MAX));
    Ok(seen.map(|microseconds| Duration::from_micros(microseconds.into())))
}

/// Returns true if both sides of a connection send timestamps (RFC 7323), or did so until it ended.
///
/// # Errors
///
/// The error of `getsockopt(2)`, for example if the socket is not TCP.
pub fn has_timestamps(connection: BorrowedFd<'_>) -> io::Result<bool> {
    let mut info = [0_u8; OPTIONS_OFFSET + 1];
    let info_bytes = read_info(connection, &mut info)?;
    let options = info_bytes.get(OPTIONS_OFFSET);
    Ok(options.is_some_and(|options| options & TIMESTAMPS != 0))
}

/// Returns the beginning of the structure, as far as the kernel supports it.
fn read_info<'a>(connection: BorrowedFd<'_>, info: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let mut bytes = libc::socklen_t::try_from(info.len()).map_err(io::Error::other)?;
    // SAFETY: both pointers are valid for the lengths that are given.
    let result = unsafe {
        libc::getsockopt(
            connection.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(info.get(..bytes as usize).unwrap_or_default())
}

#[cfg(test)]
mod tests;
