//! The audit of node ports (NP-11).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::{Audit, Books, Fault, Finding, Mend, ServiceRecord};

/// Rounds in which a record without a Service must be found before it has leaked: another server may be about
/// to make the Service.
const ROUNDS_BEFORE_LEAK: u8 = 3;

/// Records without a Service, and in how many rounds more they must be found so. Their number is bounded by that
/// of the ports.
#[derive(Debug, Default)]
pub(crate) struct Suspects(BTreeMap<u16, u8>);

impl Suspects {
    /// Whether further rounds are of use though nothing changes.
    pub(crate) fn are_there(&self) -> bool {
        !self.0.is_empty()
    }
}

/// Compares the records of node ports with the Services. Only a round, which is made from time to time and not
/// because something happened, brings suspects nearer to their end.
pub(crate) fn audit(
    books: &Books,
    range: &RangeInclusive<u16>,
    suspects: &mut Suspects,
    is_round: bool,
) -> Audit {
    let mut audit = Audit::default();
    let held = audit_services(books, range, &mut audit);
    let is_suspect = |port: &u16| !held.contains(port) && range.contains(port);
    suspects
        .0
        .retain(|port, _| is_suspect(port) && books.ports.contains_key(port));
    for (port, record) in books
        .ports
        .iter()
        .filter(|(port, _)| is_round && is_suspect(port))
    {
        let rounds = suspects.0.entry(*port).or_insert(ROUNDS_BEFORE_LEAK);
        if *rounds > 0 {
            *rounds -= 1;
            continue;
        }
        audit.findings.push(Finding {
            fault: Fault::Leaked,
            reason: "PortLeaked",
            message: format!(
                "the node port {port} of {} appears to have leaked: cleaning up",
                record.holder
            ),
            regarding: None,
        });
        audit.mends.push(Mend::FreePort {
            port: *port,
            at: record.at,
        });
    }
    audit
}

/// Looks whether each Service's ports are in the range, its own, and recorded; the ports that Services have.
fn audit_services(books: &Books, range: &RangeInclusive<u16>, audit: &mut Audit) -> BTreeSet<u16> {
    let mut held: BTreeSet<u16> = BTreeSet::new();
    let recorded_first = |service: &&ServiceRecord, port: u16| {
        let record = books.ports.get(&port);
        record.is_some_and(|record| record.holder == format!("{}/{}", service.namespace, service.name))
    };
    // Who is recorded has the older right, so it comes first.
    for is_recorded in [true, false] {
        for service in &books.services {
            let ports = service.node_ports.iter().copied();
            for port in ports.filter(|port| recorded_first(&service, *port) == is_recorded) {
                let finding = |fault, reason, message| Finding {
                    fault,
                    reason,
                    message,
                    regarding: service.regarding(),
                };
                if !range.contains(&port) {
                    let (first, last) = (range.start(), range.end());
                    let message = format!(
                        "Port {port} is not within the port range {first}-{last}; please recreate service"
                    );
                    audit
                        .findings
                        .push(finding(Fault::OutOfRange, "PortOutOfRange", message));
                } else if !held.insert(port) {
                    let message =
                        format!("Port {port} was assigned to multiple services; please recreate service");
                    audit
                        .findings
                        .push(finding(Fault::Duplicate, "PortAlreadyAllocated", message));
                } else if !is_recorded {
                    let message = format!("Port {port} is not allocated; repairing");
                    audit
                        .findings
                        .push(finding(Fault::NotRecorded, "PortNotAllocated", message));
                    audit.mends.push(Mend::RecordPort {
                        port,
                        holder: service.claim(),
                        instead_of: books.ports.get(&port).map(|record| record.at),
                    });
                }
            }
        }
    }
    held
}

#[cfg(test)]
mod tests;
