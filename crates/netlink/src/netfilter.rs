//! What requests to the parts of netfilter have in common (`linux/netfilter/nfnetlink.h`).

use std::io;

use crate::message::{Message, Writer};
use crate::socket::Socket;

/// `struct nfgenmsg` in bytes.
pub(crate) const GENERIC_BYTES: usize = 4;

/// Which request to which part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// `NFNL_SUBSYS_…`.
    pub(crate) subsystem: u16,
    /// The part's own number of the command.
    pub(crate) command: u16,
    /// `NLM_F_…`, without `NLM_F_REQUEST`.
    pub(crate) flags: libc::c_int,
    /// `AF_…`, as far as the part tells families apart.
    pub(crate) family: libc::c_int,
}

/// Sends a request with the attributes that `write` adds, and hands every message of the answer to `each`; `Err` carries
/// the errno that the kernel refused it with.
pub(crate) fn request(
    socket: &mut Socket,
    request: Request,
    write: impl FnOnce(&mut Writer),
    each: impl FnMut(&Message<'_>),
) -> io::Result<()> {
    let sequence = socket.next_sequence();
    let mut writer = Writer::default();
    writer
        .begin(
            request.subsystem << 8 | request.command,
            libc::NLM_F_REQUEST | request.flags,
            sequence,
        )
        .fixed(&[request.family as u8, 0, 0, 0]);
    write(&mut writer);
    socket.exchange(writer.finish(), sequence, each).map(drop)
}
