//! Encoding of transactions: tables, chains, rules, sets and elements.

use crate::message::{NestedAttribute, Writer, messages};

use super::connection::Generation;
use super::element::Element;
use super::error::Refusal;
use super::set::Set;
use super::table::{Chain, Rule, Table};
use super::wire;

/// Maximum size of an element list in bytes: the list is an attribute, whose length has 16 bits.
const LIST_BYTES_MAX: usize = 60 * 1024;

/// Kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Add the object.
    Add,
    /// Delete the object.
    Delete,
}

/// Family of a table (`NFPROTO_…`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TableFamily {
    /// `inet`: IPv4 and IPv6.
    Inet = wire::NFPROTO_INET,
    /// `ip`.
    Ipv4 = libc::NFPROTO_IPV4 as u8,
    /// `ip6`.
    Ipv6 = libc::NFPROTO_IPV6 as u8,
}

impl std::fmt::Display for TableFamily {
    /// Writes the name of the family in `nft`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Inet => "inet",
            Self::Ipv4 => "ip",
            Self::Ipv6 => "ip6",
        })
    }
}

/// A transaction on one table. Each message has an owner, a number that the caller chooses and that a [`Refusal`]
/// contains.
#[derive(Debug)]
pub struct Batch {
    writer: Writer,
    family: TableFamily,
    table: String,
    owners: Vec<u32>,
    sets: u32,
}

impl Batch {
    /// Creates an empty transaction on a table of family `inet`. With a generation, the kernel commits it only if the
    /// ruleset still has that generation.
    pub fn new(table: &str, generation: Option<Generation>) -> Self {
        let mut writer = Writer::with_capacity(4096);
        let begin = writer.begin(wire::NFNL_MSG_BATCH_BEGIN, libc::NLM_F_REQUEST, 1);
        begin.fixed(&generic(0, wire::SUBSYSTEM));
        if let Some(generation) = generation {
            begin.u32_be(wire::NFNL_BATCH_GENID, generation.0);
        }
        Self {
            writer,
            family: TableFamily::Inet,
            table: table.to_owned(),
            owners: Vec::new(),
            sets: 0,
        }
    }

    /// Creates an empty transaction on a table of another family.
    pub fn of_family(family: TableFamily, table: &str) -> Self {
        Self {
            family,
            ..Self::new(table, None)
        }
    }

    /// Adds a table, or deletes it with its content.
    pub fn table(&mut self, change: Change, table: &Table, owner: u32) {
        let message = message_of(change, wire::NEWTABLE, wire::DELTABLE);
        match change {
            Change::Add => table.encode(self.begin(message, libc::NLM_F_CREATE, owner)),
            Change::Delete => {
                self.begin(message, 0, owner).text(wire::TABLE_NAME, &table.name);
            }
        }
    }

    /// Adds a table that exists as long as the connection which commits the transaction. Only that connection may
    /// change it. Needs Linux 5.12.
    pub fn owned_table(&mut self, name: &str, owner: u32) {
        self.begin(wire::NEWTABLE, libc::NLM_F_CREATE | libc::NLM_F_EXCL, owner)
            .text(wire::TABLE_NAME, name)
            .u32_be(wire::TABLE_FLAGS, wire::TABLE_OWNED);
    }

    /// Adds a chain, or deletes an empty one.
    pub fn chain(&mut self, change: Change, chain: &Chain, owner: u32) {
        let table = self.table.clone();
        let message = message_of(change, wire::NEWCHAIN, wire::DELCHAIN);
        match change {
            Change::Add => chain.encode(self.begin(message, libc::NLM_F_CREATE, owner), &table),
            Change::Delete => {
                let writer = self.begin(message, 0, owner);
                writer
                    .text(wire::CHAIN_TABLE, &table)
                    .text(wire::CHAIN_NAME, &chain.name);
            }
        }
    }

    /// Appends a rule to a chain.
    pub fn rule(&mut self, chain: &str, rule: &Rule, owner: u32) {
        let table = self.table.clone();
        let flags = libc::NLM_F_CREATE | libc::NLM_F_APPEND;
        rule.encode(self.begin(wire::NEWRULE, flags, owner), &table, chain);
    }

    /// Deletes all rules of a chain.
    pub fn flush_chain(&mut self, chain: &str, owner: u32) {
        let table = self.table.clone();
        self.begin(wire::DELRULE, 0, owner)
            .text(wire::RULE_TABLE, &table)
            .text(wire::RULE_CHAIN, chain);
    }

    /// Adds a set or map, or deletes an unused one.
    pub fn set(&mut self, change: Change, set: &Set, owner: u32) {
        let table = self.table.clone();
        self.sets += 1;
        let id = self.sets;
        let message = message_of(change, wire::NEWSET, wire::DELSET);
        match change {
            Change::Add => set.encode(self.begin(message, libc::NLM_F_CREATE, owner), &table, id),
            Change::Delete => {
                let writer = self.begin(message, 0, owner);
                writer
                    .text(wire::SET_TABLE, &table)
                    .text(wire::SET_NAME, &set.name);
            }
        }
    }

    /// Starts a list of elements to add or delete, split into as many messages as needed.
    pub fn elements<'b>(&'b mut self, change: Change, set: &'b str, owner: u32) -> ElementList<'b> {
        ElementList {
            batch: self,
            change,
            set,
            owner,
            open: None,
        }
    }

    /// Returns the number of bytes so far.
    pub fn bytes(&self) -> usize {
        self.writer.len()
    }

    /// Returns true if the transaction changes nothing.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Ends the transaction. Returns its bytes, and the sequence number that the kernel acknowledges.
    pub(super) fn finish(&mut self) -> (&[u8], u32) {
        let last = self.owners.len() as u32 + 1;
        self.writer.add_flags(libc::NLM_F_ACK);
        self.writer
            .begin(wire::NFNL_MSG_BATCH_END, libc::NLM_F_REQUEST, last + 1)
            .fixed(&generic(0, wire::SUBSYSTEM));
        (self.writer.finish(), last)
    }

    /// Converts the kernel's error for a message to a refusal.
    pub(super) fn refusal(&mut self, sequence: u32, errno: i32, text: Option<String>) -> Refusal {
        let index = (sequence as usize).checked_sub(2);
        let message = messages(self.writer.finish()).find(|message| message.sequence == sequence);
        let operation = match message {
            Some(message) if message.kind >> 8 == wire::SUBSYSTEM => {
                let names: Vec<&str> = message
                    .attributes(wire::GENERIC_BYTES)
                    .filter(|attribute| matches!(attribute.kind, 1..=3))
                    .filter_map(|attribute| attribute.text())
                    .collect();
                describe(message.kind & 0xff, &names)
            }
            _ => "transaction".to_owned(),
        };
        Refusal {
            owner: index.and_then(|index| self.owners.get(index).copied()),
            operation,
            errno,
            text,
        }
    }

    fn begin(&mut self, message: u16, flags: libc::c_int, owner: u32) -> &mut Writer {
        self.owners.push(owner);
        let sequence = self.owners.len() as u32 + 1;
        self.writer
            .begin(wire::kind(message), libc::NLM_F_REQUEST | flags, sequence)
            .fixed(&generic(self.family as u8, 0))
    }
}

/// Encoder of an element list. Dropping it closes the open message.
#[derive(Debug)]
pub struct ElementList<'b> {
    batch: &'b mut Batch,
    change: Change,
    set: &'b str,
    owner: u32,
    open: Option<NestedAttribute>,
}

impl ElementList<'_> {
    /// Appends an element.
    pub fn push(&mut self, element: &Element<'_>) -> &mut Self {
        let is_full = self.open.as_ref().is_some_and(|list| {
            self.batch.writer.bytes_in(list) + element.encoded_bytes_max() > LIST_BYTES_MAX
        });
        if is_full {
            self.close();
        }
        if self.open.is_none() {
            self.open = Some(self.begin());
        }
        element.encode(&mut self.batch.writer, self.change == Change::Delete);
        self
    }

    fn begin(&mut self) -> NestedAttribute {
        let table = self.batch.table.clone();
        let message = message_of(self.change, wire::NEWSETELEM, wire::DELSETELEM);
        let flags = match self.change {
            Change::Add => libc::NLM_F_CREATE,
            Change::Delete => 0,
        };
        let writer = self.batch.begin(message, flags, self.owner);
        writer
            .text(wire::LIST_TABLE, &table)
            .text(wire::LIST_SET, self.set)
            .nest(wire::LIST_ELEMENTS)
    }

    fn close(&mut self) {
        if let Some(list) = self.open.take() {
            self.batch.writer.end(list);
        }
    }
}

impl Drop for ElementList<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns a `struct nfgenmsg`.
pub(super) fn generic(family: u8, resource: u16) -> [u8; wire::GENERIC_BYTES] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

fn message_of(change: Change, add: u16, delete: u16) -> u16 {
    match change {
        Change::Add => add,
        Change::Delete => delete,
    }
}

/// Describes a message. `names` are its text attributes: a table, then usually another object, then a chain.
fn describe(message: u16, names: &[&str]) -> String {
    let (action, name) = match message {
        wire::NEWTABLE => ("add table", names.first()),
        wire::DELTABLE => ("delete table", names.first()),
        wire::NEWCHAIN => ("add chain", names.last()),
        wire::DELCHAIN => ("delete chain", names.last()),
        wire::NEWRULE => ("add rule to", names.get(1)),
        wire::DELRULE => ("flush chain", names.get(1)),
        wire::NEWSET => ("add set", names.get(1)),
        wire::DELSET => ("delete set", names.get(1)),
        wire::NEWSETELEM => ("add elements to", names.get(1)),
        wire::DELSETELEM => ("delete elements of", names.get(1)),
        _ => ("message", None),
    };
    format!("{action} {}", name.copied().unwrap_or_default())
}
