//! The audit of cluster IPs (CIDR-16 to CIDR-19).

use std::collections::HashMap;
use std::net::IpAddr;

use api::ip::Family;
use jiff::{SignedDuration, Timestamp};

use super::{AddressRecord, AllocationRecords, Audit, Fault, Finding, RepairAction, ServiceRecord};

/// Age at which an IPAddress without its Service counts as leaked. Until then, another server may be about to
/// create the Service.
const LEAK_AGE: SignedDuration = SignedDuration::from_secs(60);
/// Age at which an IPAddress counts as leaked if its Service has other addresses.
const WRONG_REFERENCE_AGE: SignedDuration = SignedDuration::from_secs(5);

/// Services by namespace and name.
type ByName<'a> = HashMap<(&'a str, &'a str), &'a ServiceRecord>;

/// Compares the IPAddresses with the Services.
pub(crate) fn audit(records: &AllocationRecords, now: Timestamp) -> Audit {
    let services = records.services.iter();
    let by_name: ByName<'_> = services
        .map(|service| ((&*service.namespace, &*service.name), service))
        .collect();
    let mut audit = Audit::default();
    for service in &records.services {
        for cluster_ip in &service.cluster_ips {
            audit_service(records, &by_name, service, cluster_ip, &mut audit);
        }
    }
    for (address, record) in &records.addresses {
        audit_address(&by_name, *address, record, now, &mut audit);
    }
    audit
}

/// Checks that a cluster IP of a Service is recorded for it.
fn audit_service(
    records: &AllocationRecords,
    by_name: &ByName<'_>,
    service: &ServiceRecord,
    cluster_ip: &str,
    audit: &mut Audit,
) {
    let mut report = |fault, reason, message| {
        audit.findings.push(Finding {
            fault,
            reason,
            message,
            regarding: service.regarding(),
        });
    };
    let Ok(address) = cluster_ip.parse::<IpAddr>() else {
        let message = format!("Cluster IP {cluster_ip} is not a valid IP; please recreate Service");
        return report(Fault::NotValid, "ClusterIPNotValid", message);
    };
    let family = Family::of(address).name();
    if !records.ranges.iter().any(|range| range.contains(&address)) {
        let message = format!(
            "Cluster IP [{family}]: {address} is not within any configured Service CIDR; please recreate service"
        );
        return report(Fault::OutOfRange, "ClusterIPOutOfRange", message);
    }
    let record = records.addresses.get(&address);
    let repair = RepairAction::RecordAddress {
        address,
        holder: service.reference(),
        replaces: record.map(|record| record.at),
    };
    let Some(record) = record else {
        let message = format!("Cluster IP [{family}]: {address} is not allocated; repairing");
        report(Fault::NotRecorded, "ClusterIPNotAllocated", message);
        return audit.repairs.push(repair);
    };
    let holder = record
        .holder
        .as_ref()
        .map(|(namespace, name)| (&**namespace, &**name));
    if holder != Some((&*service.namespace, &*service.name)) {
        let other = holder.and_then(|holder| by_name.get(&holder));
        if other.is_some_and(|other| has_cluster_ip(other, address)) {
            let message = format!(
                "Cluster IP [{family}]: {address} was assigned to multiple services; please recreate service"
            );
            return report(Fault::Duplicate, "ClusterIPAlreadyAllocated", message);
        }
        let message = format!("Cluster IP [{family}]: {address} has a wrong reference; repairing");
        report(Fault::NotRecorded, "ClusterIPNotAllocated", message);
        return audit.repairs.push(repair);
    }
    if !record.is_labelled {
        audit.repairs.push(repair);
    }
}

/// Checks that the Service of a recorded address has the address.
fn audit_address(
    by_name: &ByName<'_>,
    address: IpAddr,
    record: &AddressRecord,
    now: Timestamp,
    audit: &mut Audit,
) {
    // IPAddresses of other managers are not audited.
    if !record.is_managed {
        return;
    }
    let is_older = |age| {
        record
            .created
            .is_none_or(|created| now.duration_since(created) > age)
    };
    let (reason, message) = match &record.holder {
        None => (
            "IPAddressNotAllocated",
            format!(
                "IPAddress {address} appears to have been modified, not referencing a Service: cleaning up"
            ),
        ),
        Some((namespace, name)) => match by_name.get(&(&**namespace, &**name)) {
            Some(service) if has_cluster_ip(service, address) => return,
            Some(_) if is_older(WRONG_REFERENCE_AGE) => (
                "IPAddressWrongReference",
                format!(
                    "IPAddress {address} for Service {namespace}/{name} has a wrong reference; cleaning up"
                ),
            ),
            None if is_older(LEAK_AGE) => (
                "IPAddressNotAllocated",
                format!(
                    "IPAddress {address} for Service {namespace}/{name} appears to have leaked: cleaning up"
                ),
            ),
            _ => return,
        },
    };
    // If a Service uses the address, the audit of that Service replaces its record.
    if audit
        .repairs
        .iter()
        .any(|repair| matches!(repair, RepairAction::RecordAddress { address: repaired, .. } if *repaired == address))
    {
        return;
    }
    audit.findings.push(Finding {
        fault: Fault::Leaked,
        reason,
        message,
        regarding: record.regarding(address),
    });
    audit.repairs.push(RepairAction::FreeAddress {
        address,
        at: record.at,
    });
}

fn has_cluster_ip(service: &ServiceRecord, address: IpAddr) -> bool {
    service.cluster_ips.iter().any(|ip| ip.parse() == Ok(address))
}

#[cfg(test)]
mod tests;
