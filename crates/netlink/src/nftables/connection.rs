//! The kernel's nftables: transactions and dumps.

use std::io;

use crate::message::{Attributes, Message, Writer, messages};
use crate::socket::{Acknowledgement, Socket, Subsystem};

use super::batch::{Batch, Change, TableFamily, generic};
use super::element::Element;
use super::error::{CommitError, ReadError};
use super::set::Set;
use super::table::{Chain, Rule, Table};
use super::wire;

/// How often a dump is tried that other programs' changes tear.
const DUMP_ATTEMPTS_MAX: usize = 16;
/// How often a transaction is tried that the kernel wants repeated (a signal, a module being loaded).
const COMMIT_ATTEMPTS_MAX: usize = 8;
/// The kernel's own errno of a transaction made for another generation; not to be seen elsewhere.
const ERESTART: i32 = 85;
/// What a datagram needs in the send buffer beyond its own bytes.
const SEND_OVERHEAD_BYTES: usize = 64 * 1024;

/// The number of a state of the whole ruleset; every transaction of anybody makes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(pub u32);

impl Generation {
    /// How many transactions have made this state of an earlier one; `None` if the other is the later one. One too
    /// many where the kernel's counter has come around meanwhile, since it leaves out zero.
    pub fn transactions_since(self, earlier: Self) -> Option<u32> {
        let distance = self.0.wrapping_sub(earlier.0);
        (distance <= u32::MAX / 2).then_some(distance)
    }

    /// Reads the attributes of `NFT_MSG_NEWGEN`.
    pub(super) fn decode(mut attributes: Attributes<'_>) -> Option<Self> {
        let found = attributes.find(|attribute| attribute.kind == wire::GEN_ID)?;
        found.u32_be().map(Self)
    }
}

/// A connection to the nftables of the network namespace that it was opened in.
#[derive(Debug)]
pub struct Nftables {
    socket: Socket,
    /// Bytes that the send buffer was last made to take.
    send_bytes: usize,
}

impl Nftables {
    /// Connects.
    pub fn open() -> io::Result<Self> {
        let socket = Socket::open(Subsystem::Netfilter)?;
        Ok(Self {
            socket,
            send_bytes: 0,
        })
    }

    /// The number by which the kernel tells this connection's transactions from others; it has one once something
    /// was asked.
    pub fn port(&self) -> io::Result<u32> {
        self.socket.port()
    }

    /// Does a transaction, all of it or nothing.
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
            let answers = self.answers()?;
            let again =
                |(_, answer): &(u32, Acknowledgement)| matches!(answer.errno, libc::EINTR | libc::EAGAIN);
            if answers.iter().any(again) && attempts < COMMIT_ATTEMPTS_MAX {
                continue;
            }
            let is_done = answers
                .iter()
                .any(|(sequence, answer)| *sequence == last && answer.errno == 0);
            let refused: Vec<(u32, Acknowledgement)> = answers
                .into_iter()
                .filter(|(_, answer)| answer.errno != 0)
                .collect();
            return match refused.as_slice() {
                [] if is_done => Ok(()),
                [] => Err(io::Error::from_raw_os_error(libc::ENOBUFS).into()),
                refused => Err(why(&mut batch, refused)),
            };
        }
    }

    /// Takes a table away, of whatever family, with all that is in it. Whether there was one.
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

    /// The number of the ruleset's present state.
    pub fn generation(&mut self) -> Result<Generation, ReadError> {
        let mut generation = None;
        self.request(
            "read the generation",
            TableFamily::Inet,
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

    /// The table of that name, if it is there.
    pub fn table(&mut self, name: &str) -> Result<Option<Table>, ReadError> {
        let tables = self.dump("list tables", wire::GETTABLE, |_| {}, Table::decode)?;
        Ok(tables.into_iter().find(|table| table.name == name))
    }

    /// The chains of a table.
    pub fn chains(&mut self, table: &str) -> Result<Vec<Chain>, ReadError> {
        let chains = self.dump("list chains", wire::GETCHAIN, |_| {}, Chain::decode)?;
        Ok(of_table(table, chains))
    }

    /// The names of all chains in the tables of a family, whosever they are.
    pub fn chain_names(&mut self, family: TableFamily) -> Result<Vec<String>, ReadError> {
        let operation = "list the chains of a family";
        self.dump_messages(
            operation,
            family,
            wire::GETCHAIN,
            |_| {},
            |answer, found: &mut Vec<String>| {
                let chain = Chain::decode(answer.attributes(wire::GENERIC_BYTES));
                found.extend(chain.map(|(_, chain)| chain.name));
            },
        )
    }

    /// The rules of a table with the names of their chains, in order within each chain.
    pub fn rules(&mut self, table: &str) -> Result<Vec<(String, Rule)>, ReadError> {
        let filter = |writer: &mut Writer| {
            writer.text(wire::RULE_TABLE, table);
        };
        let rules = self.dump("list rules", wire::GETRULE, filter, Rule::decode)?;
        let own = rules.into_iter().filter(|(of, _, _)| of == table);
        Ok(own.map(|(_, chain, rule)| (chain, rule)).collect())
    }

    /// The sets and maps of a table that have names.
    pub fn sets(&mut self, table: &str) -> Result<Vec<Set>, ReadError> {
        let filter = |writer: &mut Writer| {
            writer.text(wire::SET_TABLE, table);
        };
        let sets = self.dump("list sets", wire::GETSET, filter, Set::decode)?;
        Ok(of_table(table, sets))
    }

    /// The elements of a set, each read by `read`.
    pub fn elements<T>(
        &mut self,
        table: &str,
        set: &str,
        read: impl FnMut(Element<'_>) -> T,
    ) -> Result<Vec<T>, ReadError> {
        self.elements_of_family(TableFamily::Inet, table, set, read)
    }

    /// The same of a table of a family.
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

    /// What `add` makes of the elements of a set, one after the other, beginning with a default. It begins anew if a change
    /// tears the list.
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
            family,
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
            TableFamily::Inet,
            message,
            filter,
            |answer, found: &mut Vec<T>| {
                found.extend(decode(answer.attributes(wire::GENERIC_BYTES)));
            },
        )
    }

    /// Reads a dump whole, again from the start if a change tore it.
    fn dump_messages<A: Default>(
        &mut self,
        operation: &'static str,
        family: TableFamily,
        message: u16,
        filter: impl Fn(&mut Writer),
        mut each: impl FnMut(&Message<'_>, &mut A),
    ) -> Result<A, ReadError> {
        for _ in 0..DUMP_ATTEMPTS_MAX {
            let mut found = A::default();
            let torn = self.request(operation, family, message, libc::NLM_F_DUMP, &filter, |answer| {
                each(answer, &mut found);
            })?;
            if !torn {
                return Ok(found);
            }
        }
        Err(ReadError::Torn {
            operation,
            attempts: DUMP_ATTEMPTS_MAX,
        })
    }

    /// Sends a request and reads its answer; whether a change tore it.
    fn request(
        &mut self,
        operation: &'static str,
        family: TableFamily,
        message: u16,
        flags: libc::c_int,
        filter: impl Fn(&mut Writer),
        each: impl FnMut(&Message<'_>),
    ) -> Result<bool, ReadError> {
        let sequence = self.socket.next_sequence();
        let mut writer = Writer::default();
        writer
            .begin(wire::kind(message), libc::NLM_F_REQUEST | flags, sequence)
            .fixed(&generic(family as u8, 0));
        filter(&mut writer);
        match self.socket.exchange(writer.finish(), sequence, each) {
            Ok(exchange) => Ok(exchange.torn),
            Err(source) if source.raw_os_error() == Some(libc::EINTR) => Ok(true),
            Err(source) if source.raw_os_error() == Some(libc::EPERM) => Err(ReadError::NotPermitted),
            Err(source) => Err(ReadError::Socket { operation, source }),
        }
    }

    /// All that the kernel has to say; it has said it when the datagram is sent.
    fn answers(&mut self) -> io::Result<Vec<(u32, Acknowledgement)>> {
        let mut answers = Vec::new();
        while let Some(datagram) = self.socket.receive_now()? {
            let errors = messages(datagram).filter(|message| i32::from(message.kind) == libc::NLMSG_ERROR);
            answers.extend(errors.filter_map(|message| {
                Acknowledgement::read(&message).map(|answer| (message.sequence, answer))
            }));
        }
        Ok(answers)
    }
}

fn why(batch: &mut Batch, refused: &[(u32, Acknowledgement)]) -> CommitError {
    let has = |errno| refused.iter().any(|(_, answer)| answer.errno == errno);
    if has(libc::EPERM) {
        return CommitError::NotPermitted;
    }
    if has(ERESTART) {
        return CommitError::Changed;
    }
    let refusals = refused
        .iter()
        .map(|(sequence, answer)| batch.refusal(*sequence, answer.errno, answer.text.clone()))
        .collect();
    CommitError::Refused { refusals }
}

fn permission(error: io::Error) -> CommitError {
    match error.raw_os_error() {
        Some(libc::EPERM) => CommitError::NotPermitted,
        _ => error.into(),
    }
}

fn of_table<T>(table: &str, found: Vec<(String, T)>) -> Vec<T> {
    let own = found.into_iter().filter(|(of, _)| of == table);
    own.map(|(_, item)| item).collect()
}
