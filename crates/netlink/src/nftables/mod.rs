//! nftables by netlink (`linux/netfilter/nf_tables.h`): typed expressions, sets, elements and transactions.
//!
//! A [`Batch`] collects changes. [`Nftables::commit`] sends it as one datagram, and the kernel commits all or
//! nothing. A [`Refusal`] names a message that the kernel refused. Dumps read the current state; expressions without
//! a type in this crate read as [`Expression::Other`].
//!
//! Tables belong to family `inet`, which covers IPv4 and IPv6, unless a batch names another one; dumps cover `inet`
//! tables.

mod batch;
mod comment;
mod connection;
mod element;
mod error;
mod expression;
mod inventory;
mod monitor;
mod set;
mod table;
mod trace;
mod wire;

pub use batch::{Batch, Change, ElementList, TableFamily};
pub use connection::{Generation, Nftables};
pub use element::{Element, ElementData};
pub use error::{CommitError, ReadError, Refusal};
pub use expression::{
    Comparison, CtKey, CtState, Destination, DynsetOperation, Expression, FibAddress, MetaKey, PayloadBase,
    Register, Rejection, Verdict,
};
pub use inventory::{Inventory, InventoryChain, InventoryTable};
pub use monitor::{ExternalChange, Monitor};
pub use set::{Field, Set, SetValue};
pub use table::{BaseChain, Chain, ChainKind, Hook, Rule, Table};
pub use trace::{PacketTracer, TraceError, TraceEvent, TraceStep, TracedFlow};

/// Decodes a message, for the fuzz target.
#[cfg(fuzzing)]
pub(crate) fn decode_for_fuzzing(message: &crate::message::Message<'_>) {
    let attributes = || message.attributes(wire::GENERIC_BYTES);
    Table::decode(attributes());
    Chain::decode(attributes());
    Rule::decode(attributes());
    Set::decode(attributes());
    inventory::decode_for_fuzzing(message);
    TraceEvent::decode(message);
    for list in attributes() {
        for element in list.nested() {
            Element::decode(element.nested());
        }
    }
}

#[cfg(test)]
mod tests;
