//! Connection to nftables: transactions and dumps.

use std::io;

use crate::message::{Attributes, Message, Writer, messages};
use crate::socket::{Acknowledgement, DUMP_ATTEMPTS_MAX, Socket, Subsystem, complete_dump};

use super::batch::{Batch, Change, TableFamily, generic};
use super::element::Element;
use super::error::{CommitError, ReadError};
use super::set::Set;
use super::table::{Chain, Rule, Table};
use super::wire;

/// Maximum number of attempts of a transaction that the kernel requests to repeat, after a signal or for loading a
/// module.
const COMMIT_ATTEMPTS_MAX: usize = 8;
/// Errno of a transaction for another generation; the kernel uses it here only.
const ERESTART: i32 = 85;
/// Overhead of a datagram in the send buffer, in bytes.
const SEND_OVERHEAD_BYTES: usize = 64 * 1024;

/// Generation of the ruleset. Every transaction of any process creates a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(pub u32);

impl Generation {
    /// Returns the number of transactions between two generations; `None` if `earlier` is later. The result is one
    /// too large if the counter of the kernel wrapped, because it skips zero.
    pub fn transactions_since(self, earlier: Self) -> Option<u32> {
        let distance = self.0.wrapping_sub(earlier.0);
        (distance <= u32::MAX / 2).then_some(distance)
    }

    /// Decodes the attributes of `NFT_MSG_NEWGEN`.
    pub(super) fn decode(mut attributes: Attributes<'_>) -> Option<Self> {
        let found = attributes.find(|attribute| attribute.kind == wire::GEN_ID)?;
        found.u32_be().map(Self)
    }
}

/// Connection to the nftables of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Nftables {
    socket: Socket,
    /// Size of the send buffer in bytes, as last requested.
    send_bytes: usize,
}

impl Nftables {
    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// The error of the socket call.
    pub fn open() -> io::Result<Self> {
        let socket = Socket::open(Subsystem::Netfilter)?;
        Ok(Self {
            socket,
            send_bytes: 0,
        })
    }

    /// Returns the port ID, by which the kernel distinguishes transactions of this connection from others. It is
    /// assigned with the first request.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn port(&self) -> io::Result<u32> {
        self.socket.port()
    }

    /// Commits a transaction, completely or not at all.
    ///
    /// # Errors
    ///
    /// A [`CommitError`]; the ruleset is unchanged then, except after [`CommitError::Socket`], which leaves the
    /// result unknown.
    pub fn commit(&mut self, mut batch: Batch) -> Result<(), CommitError> {
        if batch.is_empty() {
            return Ok(());
        }
        let (bytes, last) = batch.finish();
        let send_bytes = bytes.len().saturating_mul(2).saturating_add(SEND_OVERHEAD_BYTES);
        if send_bytes > self.send_bytes {
            self.socket.reserve_send(send_bytes)?;
            self.send_bytes = send_bytes;
        }
        let mut attempts = 0;
        loop {
            attempts += 1;
            self.socket.drain()?;
            self.socket.send(bytes).map_err(permission)?;
            let acknowledgements = self.acknowledgements()?;
            let again =
                |(_, response): &(u32, Acknowledgement)| matches!(response.errno, libc::EINTR | libc::EAGAIN);
            if acknowledgements.iter().any(again) && attempts < COMMIT_ATTEMPTS_MAX {
                continue;
            }
            let is_done = acknowledgements
                .iter()
                .any(|(sequence, response)| *sequence == last && response.errno == 0);
            let refused: Vec<(u32, Acknowledgement)> = acknowledgements
                .into_iter()
                .filter(|(_, response)| response.errno != 0)
                .collect();
            return match refused.as_slice() {
                [] if is_done => Ok(()),
                [] => Err(io::Error::from_raw_os_error(libc::ENOBUFS).into()),
                refused => Err(commit_error(&mut batch, refused)),
            };
        }
    }

    /// Deletes a table of any family with its content. Returns true if it existed.
    ///
    /// # Errors
    ///
    /// A [`CommitError`] if the kernel refuses.
    pub fn delete_table(&mut self, family: TableFamily, name: &str) -> Result<bool, CommitError> {
        let mut batch = Batch::of_family(family, name);
        let table = Table {
            name: name.to_owned(),
            comment: String::new(),
            is_dormant: false,
        };
        batch.table(Change::Delete, &table, 0);
        match self.commit(batch) {
            Ok(()) => Ok(true),
            Err(CommitError::Refused { refusals })
                if refusals.iter().all(|refusal| refusal.errno == libc::ENOENT) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the current generation of the ruleset.
    ///
    /// # Errors
    ///
    /// A [`ReadError`] if the kernel refuses.
    pub fn generation(&mut self) -> Result<Generation, ReadError> {
        let mut generation = None;
        self.request(
            "read the generation",
            TableFamily::Inet as u8,
            wire::GETGEN,
            libc::NLM_F_ACK,
            |_| {},
            |message| generation = Generation::decode(message.attributes(wire::GENERIC_BYTES)),
        )?;
        generation.ok_or(ReadError::Socket {
            operation: "read the generation",
            source: io::Error::from(io::ErrorKind::InvalidData),
        })
    }

    /// Returns the table with this name.
    ///
    /// # Errors
    ///
    /// A [`ReadError`] if the dump fails.
    pub fn table(&mut self, name: &str) -> Result<Option<Table>, ReadError> {
        let tables = self.dump("list tables", wire::GETTABLE, |_| {}, Table::decode)?;
        Ok(tables.into_iter().find(|table| table.name == name))
    }

    /// Returns the chains of a table.
    ///
    /// # Errors
    ///
    /// A [`ReadError`] if the dump fails.
    pub fn chains(&mut self, table: &str) -> Result<Vec<Chain>, ReadError> {
        let chains = self.dump("list chains", wire::GETCHAIN, |_| {}, Chain::decode)?;
        Ok(items_of_table(table, chains))
    }

    /// Returns the names of all chains in the tables of a family, including those of other programs.
    ///
    /// # Errors
    ///
    /// A [`ReadError`] if the dump fails.
    pub fn chain_names(&mut self, family: TableFamily) -> Result<Vec<String>, ReadError> {
        let operation = "list the chains of a family";
        self.dump_messages(
            operation,
            family as u8,
            wire::GETCHAIN,
            |_| {},
            |response, found: &mut Vec<String>| {
                let chain = Chain::decode(response.attributes(wire::GENERIC_BYTES));
                found.extend(chain.map(|(_, chain)| chain.name));
            },
        )
    }

    /// Returns the rules of a table with the names of their chains, in order within each chain.
    ///
    /// # Errors
    ///
    /// A [`ReadError`] if the dump fails.
    pub fn rules(&mut self, table: &str) -> Result<Vec<(String, Rule)>, ReadError> {
        let filter = |writer: &mut Writer| {
            writer.text(wire::RULE_TABLE, table);
        };
        let rules = self.dump("list rules", wire::GETRULE, filter, Rule::decode)?;
        let own = rules.into_iter().filter(|(of, _, _)| of == table);
        Ok(own.map(|(_, chain, rule)| (chain, rule)).collect())
    }

    /// Returns the named sets and maps of a table.
    ///
    /// # Errors
    ///
    /// A [`ReadError`] if the dump fails.
    pub fn sets(&mut self, table: &str) -> Result<Vec<Set>, ReadError> {
        let filter = |writer: &mut Writer| {
            writer.text(wire::SET_TABLE, table);
        };
        let sets = self.dump("list sets", wire::GETSET, filter, Set::decode)?;
        Ok(items_of_table(table, sets))
    }

    /// Returns the elements of a set, converted by `read`.
    ///
    /// # Errors
    ///
    /// A [`ReadError`] if the dump fails.
    pub fn elements<T>(
        &mut self,
        table: &str,
        set: &str,
        read: impl FnMut(Element<'_>) -> T,
    ) -> Result<Vec<T>, ReadError> {
        self.elements_of_family(TableFamily::Inet, table, set, read)
    }

    /// Returns the elements of a set in a table of another family, converted by `read`.
    ///
    /// # Errors
    ///
    /// A [`ReadError`] if the dump fails.
    pub fn elements_of_family<T>(
        &mut self,
        family: TableFamily,
        table: &str,
        set: &str,
        mut read: impl FnMut(Element<'_>) -> T,
    ) -> Result<Vec<T>, ReadError> {
        self.fold_elements_of_family(family, table, set, |found: &mut Vec<T>, element| {
            found.push(read(element));
        })
    }

    /// Folds the elements of a set by `add`, beginning with a default. It starts again if a change interrupts the
    /// dump.
    ///
    /// # Errors
    ///
    /// A [`ReadError`] if the dump fails.
    pub fn fold_elements<A: Default>(
        &mut self,
        table: &str,
        set: &str,
        add: impl FnMut(&mut A, Element<'_>),
    ) -> Result<A, ReadError> {
        self.fold_elements_of_family(TableFamily::Inet, table, set, add)
    }

    fn fold_elements_of_family<A: Default>(
        &mut self,
        family: TableFamily,
        table: &str,
        set: &str,
        mut add: impl FnMut(&mut A, Element<'_>),
    ) -> Result<A, ReadError> {
        let filter = |writer: &mut Writer| {
            writer.text(wire::LIST_TABLE, table).text(wire::LIST_SET, set);
        };
        self.dump_messages(
            "list elements",
            family as u8,
            wire::GETSETELEM,
            filter,
            |message, found| {
                let lists = message
                    .attributes(wire::GENERIC_BYTES)
                    .filter(|attribute| attribute.kind == wire::LIST_ELEMENTS);
                for element in lists.flat_map(|list| list.nested()) {
                    if let Some(element) = Element::decode(element.nested()) {
                        add(found, element);
                    }
                }
            },
        )
    }

    fn dump<T>(
        &mut self,
        operation: &'static str,
        message: u16,
        filter: impl Fn(&mut Writer),
        decode: impl Fn(Attributes<'_>) -> Option<T>,
    ) -> Result<Vec<T>, ReadError> {
        self.dump_messages(
            operation,
            TableFamily::Inet as u8,
            message,
            filter,
            |response, found: &mut Vec<T>| {
                found.extend(decode(response.attributes(wire::GENERIC_BYTES)));
            },
        )
    }

    /// Reads a complete dump of a family (`NFPROTO_…`); starts again if a change interrupts it.
    pub(super) fn dump_messages<A: Default>(
        &mut self,
        operation: &'static str,
        family: u8,
        message: u16,
        filter: impl Fn(&mut Writer),
        mut each: impl FnMut(&Message<'_>, &mut A),
    ) -> Result<A, ReadError> {
        let dumped = complete_dump(|| -> Result<(A, bool), ReadError> {
            let mut found = A::default();
            let is_inconsistent = self.request(
                operation,
                family,
                message,
                libc::NLM_F_DUMP,
                &filter,
                |response| {
                    each(response, &mut found);
                },
            )?;
            Ok((found, is_inconsistent))
        })?;
        dumped.ok_or(ReadError::Inconsistent {
            operation,
            attempts: DUMP_ATTEMPTS_MAX,
        })
    }

    /// Sends a request and reads its response. Returns true if a change interrupted the dump.
    fn request(
        &mut self,
        operation: &'static str,
        family: u8,
        message: u16,
        flags: libc::c_int,
        filter: impl Fn(&mut Writer),
        each: impl FnMut(&Message<'_>),
    ) -> Result<bool, ReadError> {
        let sequence = self.socket.next_sequence();
        let mut writer = Writer::default();
        writer
            .begin(wire::kind(message), libc::NLM_F_REQUEST | flags, sequence)
            .fixed(&generic(family, 0));
        filter(&mut writer);
        match self.socket.exchange(writer.finish(), sequence, each) {
            Ok(exchange) => Ok(exchange.is_inconsistent),
            Err(source) if source.raw_os_error() == Some(libc::EINTR) => Ok(true),
            Err(source) if source.raw_os_error() == Some(libc::EPERM) => Err(ReadError::NotPermitted),
            Err(source) => Err(ReadError::Socket { operation, source }),
        }
    }

    /// Returns all acknowledgements. The kernel has queued them when the datagram is sent.
    fn acknowledgements(&mut self) -> io::Result<Vec<(u32, Acknowledgement)>> {
        let mut acknowledgements = Vec::new();
        while let Some(datagram) = self.socket.receive_now()? {
            let errors = messages(datagram).filter(|message| i32::from(message.kind) == libc::NLMSG_ERROR);
            acknowledgements.extend(errors.filter_map(|message| {
                Acknowledgement::read(&message).map(|response| (message.sequence, response))
            }));
        }
        Ok(acknowledgements)
    }
}

fn commit_error(batch: &mut Batch, refused: &[(u32, Acknowledgement)]) -> CommitError {
    let has = |errno| refused.iter().any(|(_, response)| response.errno == errno);
    if has(libc::EPERM) {
        return CommitError::NotPermitted;
    }
    if has(ERESTART) {
        return CommitError::Changed;
    }
    let refusals = refused
        .iter()
        .map(|(sequence, response)| batch.refusal(*sequence, response.errno, response.text.clone()))
        .collect();
    CommitError::Refused { refusals }
}

fn permission(error: io::Error) -> CommitError {
    match error.raw_os_error() {
        Some(libc::EPERM) => CommitError::NotPermitted,
        _ => error.into(),
    }
}

fn items_of_table<T>(table: &str, found: Vec<(String, T)>) -> Vec<T> {
    let own = found.into_iter().filter(|(of, _)| of == table);
    own.map(|(_, item)| item).collect()
}
