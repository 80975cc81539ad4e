//! Cluster IPs of Services (VAL-65, VAL-66, FAM-07 to FAM-13).
//!
//! A Service has one cluster IP for each of its IP families: the requested address, or a free one. Headless Services and
//! ExternalName Services have none. A Service keeps its first cluster IP until it is deleted or becomes an ExternalName
//! Service. It gets and loses the second one with its second family.

use api::field::{FieldError, Path};
use api::ip::{self, Family};
use api::service::{HEADLESS, View, keeps_prefer_dual_stack};
use api::{names, tree};
use serde_json::{Value, json};

use super::Failure;
use super::allocation::Allocation;

/// Reserves the cluster IPs of a new Service, one per IP family.
pub(super) fn allocate(allocation: &mut Allocation, service: &mut Value) -> Result<(), Failure> {
    let view = View::of(service);
    let given = view.cluster_ips();
    if view.is_external_name() || given.first() == Some(&HEADLESS) {
        return Ok(());
    }
    let mut addresses = given
        .iter()
        .map(|address| (*address).to_owned())
        .collect::<Vec<_>>();
    for (index, family) in view.ip_families().into_iter().enumerate() {
        let requested = given.get(index).copied().unwrap_or_default();
        let address = take(allocation, view, family, requested)?;
        match addresses.get_mut(index) {
            Some(slot) => *slot = address,
            None => addresses.push(address),
        }
    }
    write(service, addresses);
    Ok(())
}

/// Reserves and releases cluster IPs after a change of the type or of the IP families.
pub(super) fn update(allocation: &mut Allocation, new: &mut Value, old: &Value) -> Result<(), Failure> {
    if keeps_prefer_dual_stack(new, old) {
        return Ok(());
    }
    let (after, before) = (View::of(new), View::of(old));
    if before.is_external_name() {
        return allocate(allocation, new);
    }
    let held = before.cluster_ips();
    if held.first() == Some(&HEADLESS) {
        return Ok(());
    }
    if after.is_external_name() {
        release_all(allocation, &held);
        return Ok(());
    }
    let families = after.ip_families();
    match (before.ip_families().len(), families.len()) {
        (1, 2) => {
            let mut addresses: Vec<String> = after.cluster_ips().into_iter().map(str::to_owned).collect();
            let requested = addresses.get(1).cloned().unwrap_or_default();
            let second = take(allocation, after, families[1], &requested)?;
            addresses.truncate(1);
            addresses.push(second);
            write(new, addresses);
        }
        (2, 1) => release_all(allocation, held.get(1..).unwrap_or_default()),
        _ => {}
    }
    Ok(())
}

/// Releases all cluster IPs of a deleted Service.
pub(super) fn release(allocation: &mut Allocation, service: View<'_>) {
    let held = service.cluster_ips();
    if !service.is_external_name() && held.first() != Some(&HEADLESS) {
        release_all(allocation, &held);
    }
}

fn take(
    allocation: &mut Allocation,
    service: View<'_>,
    family: &str,
    requested: &str,
) -> Result<String, Failure> {
    if !allocation.is_dry_run() {
        check_holder(service, requested)?;
    }
    if !requested.is_empty() {
        let Some(parsed) = ip::parse_legacy(requested) else {
            return Err(rejection(
                service,
                format!("failed to allocate IP {requested}: invalid IP"),
            ));
        };
        return match allocation.take_address(parsed.address) {
            Ok(()) => Ok(requested.to_owned()),
            Err(error) => Err(rejection(
                service,
                format!("failed to allocate IP {requested}: {error}"),
            )),
        };
    }
    let exhausted = || {
        let name = service.name();
        Failure::Internal(format!(
            "failed to allocate a serviceIP for Service \"{name}\": range is full"
        ))
    };
    let family = Family::from_name(family).ok_or_else(exhausted)?;
    let address = allocation.take_next_address(family).ok_or_else(exhausted)?;
    Ok(address.to_string())
}

/// Checks that the IPAddress can reference the Service by its name.
fn check_holder(service: View<'_>, requested: &str) -> Result<(), Failure> {
    let name = service.name();
    let fault = if name.is_empty() {
        "the name of the Service is needed".to_owned()
    } else {
        match names::path_segment(name).into_iter().next() {
            Some(fault) => fault,
            None => return Ok(()),
        }
    };
    Err(rejection(
        service,
        format!("failed to allocate IP {requested}: {fault}"),
    ))
}

fn rejection(service: View<'_>, fault: String) -> Failure {
    let path = Path::new("spec").child("clusterIPs");
    Failure::Invalid(vec![FieldError::invalid(&path, service.cluster_ips(), fault)])
}

fn release_all(allocation: &mut Allocation, addresses: &[&str]) {
    for address in addresses.iter().filter_map(|address| ip::parse_legacy(address)) {
        allocation.release_address(address.address);
    }
}

fn write(service: &mut Value, addresses: Vec<String>) {
    let Some(spec) = service.get_mut("spec") else {
        return;
    };
    if let Some(first) = addresses.first() {
        tree::set(spec, "clusterIP", first.as_str());
    }
    tree::set(spec, "clusterIPs", json!(addresses));
}
