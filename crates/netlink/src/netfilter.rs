//! Requests to the subsystems of netfilter (`linux/netfilter/nfnetlink.h`).

use std::io;

use crate::message::{Message, Writer};
use crate::socket::Socket;

/// Size of `struct nfgenmsg` in bytes.
pub(crate) const GENERIC_BYTES: usize = 4;

/// A netfilter subsystem.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// `NFNL_SUBSYS_…`.
    pub(crate) subsystem: u16,
    /// Address family (`AF_…`) of all requests to the subsystem.
    pub(crate) family: u8,
}

impl Part {
    /// Sends a request with the number of a command, flags in addition to `NLM_F_REQUEST`, and the attributes that `write`
    /// adds. Passes each message of the response to `each`. The error is the errno of the kernel.
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
