//! The audit of node ports (NP-11).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::{AllocationRecords, Audit, Fault, Finding, RepairAction, ServiceRecord};

/// Periodic audits that must find a record without its Service before it counts as leaked. Until then, another
/// server may be about to create the Service.
const ROUNDS_BEFORE_LEAK: u8 = 3;

/// Records without a Service, with the number of further periodic audits before each counts as leaked. Bounded by
/// the number of ports.
#[derive(Debug, Default)]
pub(crate) struct SuspectPorts(BTreeMap<u16, u8>);

impl SuspectPorts {
    /// Returns true if records are suspected. Further audits are then needed, also without a change.
    pub(crate) fn has_any(&self) -> bool {
        !self.0.is_empty()
    }
}

/// Compares the records of node ports with the Services. Only periodic audits, not those after a change, count for
/// suspects.
pub(crate) fn audit(
    records: &AllocationRecords,
    range: &RangeInclusive<u16>,
    suspects: &mut SuspectPorts,
    is_periodic: bool,
) -> Audit {
    let mut audit = Audit::default();
    let held = audit_services(records, range, &mut audit);
    let is_suspect = |port: &u16| !held.contains(port) && range.contains(port);
    suspects
        .0
        .retain(|port, _| is_suspect(port) && records.ports.contains_key(port));
    for (port, record) in records
        .ports
        .iter()
        .filter(|(port, _)| is_periodic && is_suspect(port))
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
        audit.repairs.push(RepairAction::FreePort {
            port: *port,
            at: record.at,
        });
    }
    audit
}

/// Checks that the node ports of each Service are in the range, its own and recorded. Returns the ports that
/// Services hold.
fn audit_services(
    records: &AllocationRecords,
    range: &RangeInclusive<u16>,
    audit: &mut Audit,
) -> BTreeSet<u16> {
    let mut held: BTreeSet<u16> = BTreeSet::new();
    let is_recorded_for = |service: &&ServiceRecord, port: u16| {
        let record = records.ports.get(&port);
        record.is_some_and(|record| record.holder == format!("{}/{}", service.namespace, service.name))
    };
    // The Service of the record has precedence, so recorded ports are checked first.
    for is_recorded in [true, false] {
        for service in &records.services {
            let ports = service.node_ports.iter().copied();
            for port in ports.filter(|port| is_recorded_for(&service, *port) == is_recorded) {
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
                    audit.repairs.push(RepairAction::RecordPort {
                        port,
                        holder: service.reference(),
                        replaces: records.ports.get(&port).map(|record| record.at),
                    });
                }
            }
        }
    }
    held
}

#[cfg(test)]
mod tests;
