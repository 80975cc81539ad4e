//! Transactions of the store that repair records of addresses and ports.

use std::net::IpAddr;

use jiff::Timestamp;
use store::{Expectation, Index, Key, Revision, Transaction};

use super::super::records::{self, Holder};
use super::{RepairAction, ServiceReference};

/// Returns the transactions of a repair, in their order. An existing object is deleted and created again, not
/// updated. Each transaction fails if the state has changed since the audit.
pub(crate) fn transactions(repair: &RepairAction, index: &Index, now: Timestamp) -> Vec<Transaction> {
    match repair {
        RepairAction::RecordAddress {
            address,
            holder,
            replaces,
        } => {
            let removal = replaces.map(|at| removal(index, *address, at));
            let key = records::address_key(*address);
            let put = records::put_address(*address, holder.as_holder(), now);
            let record = Transaction {
                expectations: vec![(key, Expectation::Absent), expect_unchanged(holder)],
                writes: vec![put],
            };
            removal.into_iter().chain([record]).collect()
        }
        RepairAction::FreeAddress { address, at } => vec![removal(index, *address, *at)],
        RepairAction::RecordPort {
            port,
            holder,
            replaces,
        } => {
            let before = replaces.map_or(Expectation::Absent, Expectation::At);
            vec![Transaction {
                expectations: vec![(records::port_key(*port), before), expect_unchanged(holder)],
                writes: vec![records::put_port(*port, holder.as_holder())],
            }]
        }
        RepairAction::FreePort { port, at } => vec![Transaction {
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

fn expect_unchanged(holder: &ServiceReference) -> (Key, Expectation) {
    let key = format!("{}{}/{}", super::SERVICES_PREFIX, holder.namespace, holder.name);
    (key.into(), Expectation::At(holder.at))
}

impl ServiceReference {
    fn as_holder(&self) -> Holder<'_> {
        Holder {
            namespace: &self.namespace,
            name: &self.name,
        }
    }
}
