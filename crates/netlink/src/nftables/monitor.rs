//! What others do to a table (`NFNLGRP_NFTABLES`): the kernel tells of every transaction.

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
/// Datagrams read in one call, so that a flood of them does not keep the caller.
const DATAGRAMS_MAX: usize = 256;

/// Something that another program did to the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalChange {
    /// Elements of a set or map came or went.
    Elements {
        /// Which set.
        set: String,
        /// Their keys.
        keys: Vec<Box<[u8]>>,
    },
    /// Rules or chains came or went.
    Rules,
    /// A set or map was declared, or taken away.
    Set {
        /// Its name.
        set: String,
    },
    /// The table itself came or went, or it is not known what happened.
    Everything,
    /// A transaction is told to its end, whatever it touched, in this table or elsewhere: the ruleset was in this
    /// state behind it.
    Transaction(Generation),
}

/// Listens to what others do to one table of the family `inet`.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    table: String,
}

impl Monitor {
    /// Begins to listen, in the calling thread's network namespace. What is done by the socket with that port
    /// number is not told, nor what is done to other tables: the kernel drops it before it takes any room.
    pub fn open(table: &str, own_port: u32) -> io::Result<Self> {
        let socket = Socket::open(Subsystem::Netfilter)?;
        filter::attach(socket.as_fd(), &relevance::steps(table, own_port))?;
        socket.join(GROUP)?;
        Ok(Self {
            socket,
            table: table.to_owned(),
        })
    }

    /// Waits until there is something to read, so long at most; whether there is.
    pub fn wait(&self, timeout: Duration) -> io::Result<bool> {
        self.socket.wait(timeout)
    }

    /// What has been done since the last call. Does not wait.
    pub fn read(&mut self) -> io::Result<Vec<ExternalChange>> {
        let mut touched = Vec::new();
        for _ in 0..DATAGRAMS_MAX {
            match self.socket.receive_now() {
                Ok(None) => break,
                Ok(Some(datagram)) => {
                    touched.extend(messages(datagram).filter_map(|message| read(&self.table, &message)));
                }
                // More happened than the queue takes.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    touched.push(ExternalChange::Everything)
                }
                Err(error) => return Err(error),
            }
        }
        Ok(touched)
    }
}

/// What a message tells of the table, or of the ruleset. In all those of tables their name is the attribute of number 1.
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
        // Counters, quotas and flow tables are no part of what is kept here.
        _ => return None,
    })
}
