//! Named packet counters for iptables rules (`linux/netfilter/nfnetlink_acct.h`).

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

/// Connection to the counters of the network namespace in which it was opened.
#[derive(Debug)]
pub struct AccountingConnection {
    socket: Socket,
}

impl AccountingConnection {
    /// Opens a connection. This needs no privilege; requests need CAP_NET_ADMIN.
    ///
    /// # Errors
    ///
    /// The error of the socket call.
    pub fn open() -> io::Result<Self> {
        Socket::open(Subsystem::Netfilter).map(|socket| Self { socket })
    }

    /// Creates a counter if it does not exist. Names have at most 31 bytes.
    ///
    /// # Errors
    ///
    /// The kernel's error; `EOPNOTSUPP` or `EINVAL` if it lacks nfacct.
    pub fn ensure(&mut self, name: &str) -> io::Result<()> {
        let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        match self.request(NEW, flags, name, |_| {}) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
            result => result,
        }
    }

    /// Returns the number of packets that a counter has counted; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// The kernel's error.
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

    /// Deletes a counter if it exists.
    ///
    /// # Errors
    ///
    /// The kernel's error; `EBUSY` if a rule uses the counter.
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

/// Decodes a message, for the fuzz target.
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
