//! Mends as transactions.

use std::net::IpAddr;

use jiff::Timestamp;
use store::{Expectation, Index, Key, Revision, Transaction};

use super::super::records::{self, Holder};
use super::{Claim, Mend};

/// The transactions of a mend, one after the other: an object is not turned into another one, it goes and the
/// other one comes. None of them is carried out if what was found has changed since.
pub(crate) fn transactions(mend: &Mend, index: &Index, now: Timestamp) -> Vec<Transaction> {
    match mend {
        Mend::RecordAddress {
            address,
            holder,
            instead_of,
        } => {
            let removal = instead_of.map(|at| removal(index, *address, at));
            let key = records::address_key(*address);
            let put = records::put_address(*address, holder.of(), now);
            let record = Transaction {
                expectations: vec![(key, Expectation::Absent), still_there(holder)],
                writes: vec![put],
            };
            removal.into_iter().chain([record]).collect()
        }
        Mend::FreeAddress { address, at } => vec![removal(index, *address, *at)],
        Mend::RecordPort {
            port,
            holder,
            instead_of,
        } => {
            let before = instead_of.map_or(Expectation::Absent, Expectation::At);
            vec![Transaction {
                expectations: vec![(records::port_key(*port), before), still_there(holder)],
                writes: vec![records::put_port(*port, holder.of())],
            }]
        }
        Mend::FreePort { port, at } => vec![Transaction {
            expectations: vec![(records::port_key(*port), Expectation::At(*at))],
            writes: vec![records::delete_port(*port)],
        }],
    }
}

fn removal(index: &Index, address: IpAddr, at: Revision) -> Transaction {
    let key = records::address_key(address);
    Transaction {
        expectations: vec![(key.clone(), Expectation::At(at))],
        writes: records::delete_object(index, key).into_iter().collect(),
    }
}

fn still_there(holder: &Claim) -> (Key, Expectation) {
    let key = format!("{}{}/{}", super::SERVICES_PREFIX, holder.namespace, holder.name);
    (key.into(), Expectation::At(holder.at))
}

impl Claim {
    fn of(&self) -> Holder<'_> {
        Holder {
            namespace: &self.namespace,
            name: &self.name,
        }
    }
}
