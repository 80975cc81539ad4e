//! Monitor of external changes to a table (`NFNLGRP_NFTABLES`).

mod relevance;

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::filter;
use crate::message::{Message, messages};
use crate::socket::{Socket, Subsystem};

use super::connection::Generation;
use super::element::Element;
use super::wire;

/// `NFNLGRP_NFTABLES`.
const GROUP: u32 = 7;
/// Datagrams that one call reads at most, so that a flood does not block the caller.
const DATAGRAMS_MAX: usize = 256;

/// A change of the table by another program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalChange {
    /// Elements of a set or map were added or deleted.
    Elements {
        /// Name of the set.
        set: String,
        /// Keys of the elements.
        keys: Vec<Box<[u8]>>,
    },
    /// Rules or chains were added or deleted.
    Rules,
    /// A set or map was declared or deleted.
    Set {
        /// Name of the set.
        set: String,
    },
    /// The table itself was added or deleted, or the change is unknown.
    Everything,
    /// A transaction ended, on this table or another, and created this generation.
    Transaction(Generation),
}

/// Monitor of external changes to one table of family `inet`.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    table: String,
}

impl Monitor {
    /// Opens a monitor in the network namespace of the calling thread. The kernel drops notifications about other
    /// tables, and about changes by the socket with port ID `own_port`, before they take space.
    ///
    /// # Errors
    ///
    /// The error of the failed system call.
    pub fn open(table: &str, own_port: u32) -> io::Result<Self> {
        let socket = Socket::open(Subsystem::Netfilter)?;
        filter::attach(socket.as_fd(), &relevance::steps(table, own_port))?;
        socket.join(GROUP)?;
        Ok(Self {
            socket,
            table: table.to_owned(),
        })
    }

    /// Waits at most `timeout` for notifications. Returns true if there are any.
    ///
    /// # Errors
    ///
    /// The error of `poll(2)`.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        self.socket.wait(timeout)
    }

    /// Returns the changes since the last call, without waiting.
    ///
    /// # Errors
    ///
    /// The error of the socket, except for lost notifications, which are [`ExternalChange::Everything`].
    pub fn read(&mut self) -> io::Result<Vec<ExternalChange>> {
        let mut touched = Vec::new();
        for _ in 0..DATAGRAMS_MAX {
            match self.socket.receive_now() {
                Ok(None) => break,
                Ok(Some(datagram)) => {
                    touched.extend(messages(datagram).filter_map(|message| read(&self.table, &message)));
                }
                // The queue overflowed.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    touched.push(ExternalChange::Everything)
                }
                Err(error) => return Err(error),
            }
        }
        Ok(touched)
    }
}

/// Decodes a notification. Attribute 1 is the name of the table in all messages of tables.
fn read(table: &str, message: &Message<'_>) -> Option<ExternalChange> {
    if message.kind == wire::kind(wire::NEWGEN) {
        return Generation::decode(message.attributes(wire::GENERIC_BYTES)).map(ExternalChange::Transaction);
    }
    if message.kind >> 8 != wire::SUBSYSTEM || message.payload.first() != Some(&wire::NFPROTO_INET) {
        return None;
    }
    let of = message
        .attributes(wire::GENERIC_BYTES)
        .find(|attribute| attribute.kind == wire::TABLE_NAME)?;
    if of.text() != Some(table) {
        return None;
    }
    Some(match message.kind & 0xff {
        wire::NEWCHAIN | wire::DELCHAIN | wire::NEWRULE | wire::DELRULE => ExternalChange::Rules,
        wire::NEWSETELEM | wire::DELSETELEM => {
            let (mut set, mut keys) = (None, Vec::new());
            for attribute in message.attributes(wire::GENERIC_BYTES) {
                match attribute.kind {
                    wire::LIST_SET => set = attribute.text(),
                    wire::LIST_ELEMENTS => {
                        let elements = attribute.nested();
                        let elements = elements.filter_map(|element| Element::decode(element.nested()));
                        keys.extend(elements.map(|element| Box::from(element.key)));
                    }
                    _ => {}
                }
            }
            ExternalChange::Elements {
                set: set?.to_owned(),
                keys,
            }
        }
        wire::NEWSET | wire::DELSET => {
            let mut attributes = message.attributes(wire::GENERIC_BYTES);
            let name = attributes.find(|attribute| attribute.kind == wire::SET_NAME)?;
            ExternalChange::Set {
                set: name.text()?.to_owned(),
            }
        }
        wire::NEWTABLE | wire::DELTABLE => ExternalChange::Everything,
        // Counters, quotas and flow tables are not used here.
        _ => return None,
    })
}
