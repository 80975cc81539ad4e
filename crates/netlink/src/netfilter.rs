//! What requests to the parts of netfilter have in common (`linux/netfilter/nfnetlink.h`).

use std::io;

use crate::message::{Message, Writer};
use crate::socket::Socket;

/// `struct nfgenmsg` in bytes.
pub(crate) const GENERIC_BYTES: usize = 4;

/// A part of netfilter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// `NFNL_SUBSYS_…`.
    pub(crate) subsystem: u16,
    /// `AF_…`, as the part wants it in all requests.
    pub(crate) family: u8,
}

impl Part {
    /// Sends a request: the part's number of a command, flags beside `NLM_F_REQUEST`, and the attributes that `write` adds.
    /// Every message of the answer is handed to `each`; `Err` carries the errno that the kernel refused the request with.
    pub(crate) fn request(
        self,
        socket: &mut Socket,
        command: u16,
        flags: libc::c_int,
        write: impl FnOnce(&mut Writer),
        each: impl FnMut(&Message<'_>),
    ) -> io::Result<()> {
        let sequence = socket.next_sequence();
        let mut writer = Writer::default();
        writer
            .begin(
                self.subsystem << 8 | command,
                libc::NLM_F_REQUEST | flags,
                sequence,
            )
            .fixed(&[self.family, 0, 0, 0]);
        write(&mut writer);
        socket.exchange(writer.finish(), sequence, each).map(drop)
    }
}
