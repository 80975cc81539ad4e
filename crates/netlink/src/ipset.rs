//! Listing and deletion of ipset sets (`linux/netfilter/ipset/ip_set.h`).

use std::io;

use crate::message::{Message, Writer};
use crate::netfilter::{GENERIC_BYTES, Part};
use crate::socket::{Socket, Subsystem};

/// `NFNL_SUBSYS_IPSET`.
const SUBSYSTEM: u16 = 6;
const PART: Part = Part {
    subsystem: SUBSYSTEM,
    family: libc::AF_INET as u8,
};
const DESTROY: u16 = 3;
const LIST: u16 = 7;
const ATTR_PROTOCOL: u16 = 1;
const ATTR_SETNAME: u16 = 2;
const ATTR_FLAGS: u16 = 6;
/// `IPSET_PROTOCOL_MIN`, which all current kernels accept.
const PROTOCOL: u8 = 6;
/// `IPSET_FLAG_LIST_SETNAME`: list names only.
const FLAG_NAMES_ONLY: u32 = 1 << 1;

/// Connection to the sets of the network namespace in which it was opened.
#[derive(Debug)]
pub struct IpSets {
    socket: Socket,
}

impl IpSets {
    /// Opens a connection. This needs no privilege; requests need CAP_NET_ADMIN.
    ///
    /// # Errors
    ///
    /// The error of the socket call.
    pub fn open() -> io::Result<Self> {
        Socket::open(Subsystem::Netfilter).map(|socket| Self { socket })
    }

    /// Returns the names of all sets.
    ///
    /// # Errors
    ///
    /// The kernel's error; `EOPNOTSUPP` or `EINVAL` if it lacks ipset.
    pub fn names(&mut self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        let write = |writer: &mut Writer| {
            writer.u32_be(ATTR_FLAGS, FLAG_NAMES_ONLY);
        };
        self.request(LIST, libc::NLM_F_DUMP, write, |message| {
            names.extend(read_name(message))
        })?;
        Ok(names)
    }

    /// Deletes a set if it exists.
    ///
    /// # Errors
    ///
    /// The kernel's error; `EBUSY` if a rule uses the set.
    pub fn destroy(&mut self, name: &str) -> io::Result<()> {
        let write = |writer: &mut Writer| {
            writer.text(ATTR_SETNAME, name);
        };
        self.request(DESTROY, libc::NLM_F_ACK, write, |_| {})
    }

    fn request(
        &mut self,
        command: u16,
        flags: libc::c_int,
        write: impl Fn(&mut Writer),
        each: impl FnMut(&Message<'_>),
    ) -> io::Result<()> {
        let write = |writer: &mut Writer| {
            writer.attribute(ATTR_PROTOCOL, &[PROTOCOL]);
            write(writer);
        };
        PART.request(&mut self.socket, command, flags, write, each)
    }
}

/// Decodes a message, for the fuzz target.
#[cfg(fuzzing)]
pub(crate) fn decode_for_fuzzing(message: &Message<'_>) {
    read_name(message);
}

fn read_name(message: &Message<'_>) -> Option<String> {
    let mut attributes = message.attributes(GENERIC_BYTES);
    let name = attributes.find(|attribute| attribute.kind == ATTR_SETNAME)?;
    name.text().map(str::to_owned)
}

#[cfg(test)]
mod tests;
