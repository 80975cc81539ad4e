//! nftables by netlink (`linux/netfilter/nf_tables.h`): typed expressions, sets, elements, and transactions.
//!
//! A [`Batch`] collects what is to change; [`Nftables::commit`] sends it as one datagram, and the kernel does
//! all of it or nothing. What the kernel refuses comes back as [`Refusal`]s that name the message. Dumps read
//! back what is there; what this crate has no type for reads as [`Expression::Other`].
//!
//! Tables are of the family `inet`, one for IPv4 and IPv6, unless a batch says otherwise; dumps are of `inet` tables.

mod batch;
mod comment;
mod connection;
mod element;
mod error;
mod expression;
mod monitor;
mod set;
mod table;
mod wire;

pub use batch::{Batch, Change, ElementList, TableFamily};
pub use connection::{Generation, Nftables};
pub use element::{Element, ElementData};
pub use error::{CommitError, ReadError, Refusal};
pub use expression::{
    Comparison, CtKey, CtState, Destination, DynsetOperation, Expression, FibAddress, MetaKey, PayloadBase,
    Register, Rejection, Verdict,
};
pub use monitor::{ExternalChange, Monitor};
pub use set::{Field, Set, SetValue};
pub use table::{BaseChain, Chain, ChainKind, Hook, Rule, Table};

/// For the fuzz target.
#[cfg(fuzzing)]
pub(crate) fn decode_for_fuzzing(message: &crate::message::Message<'_>) {
    let attributes = || message.attributes(wire::GENERIC_BYTES);
    Table::decode(attributes());
    Chain::decode(attributes());
    Rule::decode(attributes());
    Set::decode(attributes());
    for list in attributes() {
        for element in list.nested() {
            Element::decode(element.nested());
        }
    }
}

#[cfg(test)]
mod tests;
