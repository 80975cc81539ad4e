//! Counters of packets that rules of iptables add to by name (`linux/netfilter/nfnetlink_acct.h`).

use std::io;

use crate::message::{Message, Writer};
use crate::netfilter::{GENERIC_BYTES, Part};
use crate::socket::{Socket, Subsystem};

/// `NFNL_SUBSYS_ACCT`.
const SUBSYSTEM: u16 = 7;
const PART: Part = Part {
    subsystem: SUBSYSTEM,
    family: libc::AF_UNSPEC as u8,
};
const NEW: u16 = 0;
const GET: u16 = 1;
const DELETE: u16 = 3;
const ATTR_NAME: u16 = 1;
const ATTR_PACKETS: u16 = 2;

/// A connection to the counters of the network namespace that it was opened in.
#[derive(Debug)]
pub struct Accounting {
    socket: Socket,
}

impl Accounting {
    /// Opens a connection. Needs no privilege; its use needs CAP_NET_ADMIN.
    pub fn open() -> io::Result<Self> {
        Socket::open(Subsystem::Netfilter).map(|socket| Self { socket })
    }

    /// Makes a counter if there is none of that name, of at most 31 bytes. `EOPNOTSUPP` or `EINVAL` say that the kernel
    /// has no such counters.
    pub fn ensure(&mut self, name: &str) -> io::Result<()> {
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        match self.request(NEW, flags, name, |_| {}) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
            result => result,
        }
    }

    /// The packets that a counter has counted; `None` if there is none of that name.
    pub fn packets(&mut self, name: &str) -> io::Result<Option<u64>> {
        let mut packets = None;
        let result = self.request(GET, libc::NLM_F_ACK, name, |message| {
            packets = read_packets(message)
        });
        match result {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            result => result.map(|()| packets),
        }
    }

    /// Takes a counter away, if there is one of that name. `EBUSY` says that a rule still uses it.
    pub fn remove(&mut self, name: &str) -> io::Result<()> {
        match self.request(DELETE, libc::NLM_F_ACK, name, |_| {}) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            result => result,
        }
    }

    fn request(
        &mut self,
        command: u16,
        flags: libc::c_int,
        name: &str,
        each: impl FnMut(&Message<'_>),
    ) -> io::Result<()> {
        let write = |writer: &mut Writer| {
            writer.text(ATTR_NAME, name);
        };
        PART.request(&mut self.socket, command, flags, write, each)
    }
}

/// For the fuzz target.
#[cfg(fuzzing)]
pub(crate) fn decode_for_fuzzing(message: &Message<'_>) {
    read_packets(message);
}

fn read_packets(message: &Message<'_>) -> Option<u64> {
    let mut attributes = message.attributes(GENERIC_BYTES);
    let packets = attributes.find(|attribute| attribute.kind == ATTR_PACKETS)?;
    packets.u64_be()
}

#[cfg(test)]
mod tests;
