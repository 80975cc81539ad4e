//! The audit of cluster IPs (CIDR-16 to CIDR-19).

use std::collections::HashMap;
use std::net::IpAddr;

use api::ip::Family;
use jiff::{SignedDuration, Timestamp};

use super::{AddressRecord, Audit, Books, Fault, Finding, Mend, ServiceRecord};

/// How old an IPAddress of a Service that does not exist must be to have leaked: another server may be about to
/// make the Service.
const LEAK_AGE: SignedDuration = SignedDuration::from_secs(60);
/// The same of one whose Service has other addresses.
const WRONG_REFERENCE_AGE: SignedDuration = SignedDuration::from_secs(5);

/// Services by namespace and name.
type ByName<'a> = HashMap<(&'a str, &'a str), &'a ServiceRecord>;

/// Compares the IPAddresses with the Services.
pub(crate) fn audit(books: &Books, now: Timestamp) -> Audit {
    let services = books.services.iter();
    let by_name: ByName<'_> = services
        .map(|service| ((&*service.namespace, &*service.name), service))
        .collect();
    let mut audit = Audit::default();
    for service in &books.services {
        for cluster_ip in &service.cluster_ips {
            of_service(books, &by_name, service, cluster_ip, &mut audit);
        }
    }
    for (address, record) in &books.addresses {
        of_address(&by_name, *address, record, now, &mut audit);
    }
    audit
}

fn of_service(
    books: &Books,
    by_name: &ByName<'_>,
    service: &ServiceRecord,
    cluster_ip: &str,
    audit: &mut Audit,
) {
    let mut find = |fault, reason, message| {
        audit.findings.push(Finding {
            fault,
            reason,
            message,
            regarding: service.regarding(),
        });
    };
    let Ok(address) = cluster_ip.parse::<IpAddr>() else {
        let message = format!("Cluster IP {cluster_ip} is not a valid IP; please recreate Service");
        return find(Fault::NotValid, "ClusterIPNotValid", message);
    };
    let family = Family::of(address).name();
    if !books.ranges.iter().any(|range| range.contains(&address)) {
        let message = format!(
            "Cluster IP [{family}]: {address} is not within any configured Service CIDR; please recreate service"
        );
        return find(Fault::OutOfRange, "ClusterIPOutOfRange", message);
    }
    let record = books.addresses.get(&address);
    let mend = Mend::RecordAddress {
        address,
        holder: service.claim(),
        instead_of: record.map(|record| record.at),
    };
    let Some(record) = record else {
        let message = format!("Cluster IP [{family}]: {address} is not allocated; repairing");
        find(Fault::NotRecorded, "ClusterIPNotAllocated", message);
        return audit.mends.push(mend);
    };
    let holder = record
        .holder
        .as_ref()
        .map(|(namespace, name)| (&**namespace, &**name));
    if holder != Some((&*service.namespace, &*service.name)) {
        let other = holder.and_then(|holder| by_name.get(&holder));
        if other.is_some_and(|other| has(other, address)) {
            let message = format!(
                "Cluster IP [{family}]: {address} was assigned to multiple services; please recreate service"
            );
            return find(Fault::Duplicate, "ClusterIPAlreadyAllocated", message);
        }
        let message = format!("Cluster IP [{family}]: {address} has a wrong reference; repairing");
        find(Fault::NotRecorded, "ClusterIPNotAllocated", message);
        return audit.mends.push(mend);
    }
    if !record.is_labelled {
        audit.mends.push(mend);
    }
}

fn of_address(
    by_name: &ByName<'_>,
    address: IpAddr,
    record: &AddressRecord,
    now: Timestamp,
    audit: &mut Audit,
) {
    // What somebody else keeps is not ours to judge.
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
            Some(service) if has(service, address) => return,
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
    // One that a Service has all the same is made anew for it by the other half of the audit.
    if audit
        .mends
        .iter()
        .any(|mend| matches!(mend, Mend::RecordAddress { address: mended, .. } if *mended == address))
    {
        return;
    }
    audit.findings.push(Finding {
        fault: Fault::Leaked,
        reason,
        message,
        regarding: record.regarding(address),
    });
    audit.mends.push(Mend::FreeAddress {
        address,
        at: record.at,
    });
}

fn has(service: &ServiceRecord, address: IpAddr) -> bool {
    service.cluster_ips.iter().any(|ip| ip.parse() == Ok(address))
}

#[cfg(test)]
mod tests;
