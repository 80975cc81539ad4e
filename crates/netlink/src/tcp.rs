//! What the kernel knows of a TCP connection (`struct tcp_info` of `linux/tcp.h`), and what rules look at in a TCP header
//! (RFC 9293, 3.1).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// The number of TCP in the IP header.
pub const PROTOCOL: u8 = libc::IPPROTO_TCP as u8;
/// Where a header has its flags.
pub const FLAGS_OFFSET: u32 = 13;
/// The flag of the last packet of one end.
pub const FIN: u8 = 1;
/// The flag of the first packet of each end.
pub const SYN: u8 = 2;
/// The flag of a packet that ends a connection at once.
pub const RST: u8 = 4;
/// The flag of every packet but the very first one.
pub const ACK: u8 = 16;

/// Where the structure has what both ends agreed on (`tcpi_options`), and the bit that says that they send timestamps
/// (`TCPI_OPT_TIMESTAMPS`).
const OPTIONS_OFFSET: usize = 5;
const TIMESTAMPS: u8 = 1;
/// Where the structure has the shortest round trip so far, in microseconds (`tcpi_min_rtt`, since Linux 4.9).
const MIN_RTT_OFFSET: usize = 148;
/// Bytes of the structure up to there.
const INFO_BYTES: usize = MIN_RTT_OFFSET + 4;

/// The shortest round trip that a connection has seen. `None` if it has seen none, or the kernel does not tell.
pub fn min_round_trip(connection: BorrowedFd<'_>) -> io::Result<Option<Duration>> {
    let mut info = [0_u8; INFO_BYTES];
    let told = read_info(connection, &mut info)?;
    let told = told.get(MIN_RTT_OFFSET..INFO_BYTES).and_then(<[u8]>::first_chunk);
    let microseconds = told.copied().map(u32::from_ne_bytes);
    // The kernel begins with a number that no round trip has.
    let seen = microseconds.filter(|microseconds| !matches!(*microseconds, 0 | u32::MAX));
    Ok(seen.map(|microseconds| Duration::from_micros(microseconds.into())))
}

/// Whether both ends of a connection send timestamps (RFC 7323), or did so until it ended. An error, of `getsockopt(2)`, if it
/// is none of TCP.
pub fn has_timestamps(connection: BorrowedFd<'_>) -> io::Result<bool> {
    let mut info = [0_u8; OPTIONS_OFFSET + 1];
    let told = read_info(connection, &mut info)?;
    let options = told.get(OPTIONS_OFFSET);
    Ok(options.is_some_and(|options| options & TIMESTAMPS != 0))
}

/// The beginning of the structure, as much as the kernel has of it.
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
