//! Socket filters in classic BPF.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Returns one instruction of a filter (`struct sock_filter`).
pub(crate) const fn step(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

/// Attaches a filter to a socket and replaces the previous one.
pub(crate) fn attach(socket: BorrowedFd<'_>, steps: &[libc::sock_filter]) -> io::Result<()> {
    let mut steps = steps.to_vec();
    let program = libc::sock_fprog {
        len: steps.len() as libc::c_ushort,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the program points at instructions that outlive the call, which copies them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            mem::size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
