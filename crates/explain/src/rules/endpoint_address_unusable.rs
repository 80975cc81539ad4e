//! PTL-0017: an endpoint has an address that cannot be a backend.

use std::net::IpAddr;

use api::ip::parse_legacy_cidr;

use crate::finding::{Code, Finding, Severity};
use crate::kind::Kind;
use crate::object::Object;
use crate::rule::Rule;
use crate::subject::{Subject, finding_about};
use crate::world::World;

pub(super) const RULE: Rule = Rule {
    code: CODE,
    documentation: include_str!("endpoint_address_unusable.md"),
    explained_by: &[],
    service: Some(check),
    cluster: None,
};

pub(super) const CODE: Code = Code(17);

fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for slice in subject.slices().iter().filter(|slice| !slice.is_mirrored()) {
        for (index, endpoint) in slice.endpoints().enumerate() {
            let field = format!("endpoints[{index}].addresses[0]");
            let is_of_pod = subject.is_from_selector(*slice) && endpoint.pod().is_some();
            let found = endpoint
                .ip()
                .and_then(|ip| finding(subject, slice.0, field, ip, is_of_pod));
            findings.extend(found);
        }
    }
    if let Some(endpoints) = subject.world.endpoints_of(subject.service) {
        for address in endpoints.addresses() {
            let is_of_pod = address.pod().is_some();
            let found = address
                .ip()
                .and_then(|ip| finding(subject, endpoints.0, address.field(), ip, is_of_pod));
            findings.extend(found);
        }
    }
    findings
}

fn finding(
    subject: &Subject<'_>,
    object: &Object,
    field: String,
    address: IpAddr,
    is_of_pod: bool,
) -> Option<Finding> {
    let fault = fault(subject.world, address, is_of_pod)?;
    let message = format!(
        "The endpoint {address} of Service {} {fault}; it must be the address of a Pod or of another host",
        subject.service.name
    );
    let remedy = format!(
        "Write the address of the backend into {field}: kubectl -n {} edit {} {}",
        object.namespace,
        object.kind.name().to_ascii_lowercase(),
        object.name
    );
    Some(finding_about(
        object,
        CODE,
        Severity::Error,
        field,
        message,
        remedy,
    ))
}

/// Returns the reason why an address cannot be an endpoint (EPV-04).
fn fault(world: &World, address: IpAddr, is_of_pod: bool) -> Option<String> {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    if address.is_loopback() {
        return Some("is a loopback address, which means another host on each node".to_owned());
    }
    if is_link_local {
        return Some("is a link-local address".to_owned());
    }
    if address.is_unspecified() || address.is_multicast() {
        return Some("is not the address of a host".to_owned());
    }
    let mut owners = world.services_at(address);
    if let Some(owner) = owners.find(|owner| owner.cluster_ips().contains(&address)) {
        return Some(format!(
            "is the cluster IP of Service {}/{}",
            owner.namespace, owner.name
        ));
    }
    // Other facts than the objects show the range if a user wrote the address.
    let stated = || {
        let ranges = world
            .all(Kind::ServiceCidr)
            .flat_map(|range| range.list("/spec/cidrs"));
        let mut ranges = ranges.filter_map(|range| Some(parse_legacy_cidr(range.as_str()?)?.net));
        ranges.find(|range| range.contains(&address))
    };
    let range = if is_of_pod {
        stated()?
    } else {
        world.cluster_facts().service_range(address)?
    };
    Some(format!("is in the range of cluster IPs {range}"))
}
