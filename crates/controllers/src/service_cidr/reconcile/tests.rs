use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use api::object::ServiceCidr;
use proptest::prelude::*;
use serde_json::json;

use super::{Decision, Inputs, Step, reconcile};

const DELETED: &str = "2026-01-01T00:00:00Z";

/// Returns a ServiceCIDR with this name, ranges, finalizer, deletion and condition.
fn cidr(name: &str, ranges: &[&str], is_held: bool, is_deleted: bool, ready: Option<&str>) -> ServiceCidr {
    let finalizers = if is_held {
        json!([super::FINALIZER])
    } else {
        json!([])
    };
    let conditions: Vec<_> = ready
        .map(|status| json!({"type": "Ready", "status": status}))
        .into_iter()
        .collect();
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": name, "finalizers": finalizers,
                     "deletionTimestamp": is_deleted.then_some(DELETED)},
        "spec": {"cidrs": ranges}, "status": {"conditions": conditions}}))
    .expect("a ServiceCIDR")
}

fn at(seconds: u64, cidr: &ServiceCidr, others: &[ServiceCidr], addresses: &[&str]) -> Decision {
    let addresses: BTreeSet<IpAddr> = addresses
        .iter()
        .map(|address| address.parse().expect("an address"))
        .collect();
    let all: Vec<&ServiceCidr> = others.iter().chain([cidr]).collect();
    reconcile(&Inputs {
        cidr,
        all: &all,
        addresses: &addresses,
        deleted_for: Duration::from_secs(seconds),
    })
}

#[test]
fn new_service_cidrs_get_the_finalizer_before_the_condition() {
    let step = |is_held, ready| at(0, &cidr("a", &["10.0.0.0/24"], is_held, false, ready), &[], &[]).step;
    assert_eq!(step(false, None), Some(Step::AddFinalizer));
    assert_eq!(step(true, None), Some(Step::SetReady));
    assert_eq!(step(true, Some("False")), Some(Step::SetReady));
    assert_eq!(step(true, Some("True")), None);
}

#[test]
fn service_cidr_with_addresses_in_use_is_terminating() {
    let of = |ready| cidr("a", &["10.0.0.0/24", "fd00::/64"], true, true, ready);
    let used = ["fd00::7"];
    assert_eq!(
        at(99, &of(Some("True")), &[], &used).step,
        Some(Step::SetTerminating)
    );
    assert_eq!(at(99, &of(Some("False")), &[], &used), Decision::default());
    // An address elsewhere, or in another range too, does not need it.
    assert_eq!(
        at(99, &of(Some("False")), &[], &["10.0.1.1"]).step,
        Some(Step::RemoveFinalizer)
    );
    let other = [cidr("b", &["fd00::/56"], true, false, Some("True"))];
    assert_eq!(
        at(99, &of(Some("False")), &other, &used).step,
        Some(Step::RemoveFinalizer)
    );
    // A range that is being deleted does not count.
    let going = [cidr("b", &["fd00::/56"], true, true, Some("True"))];
    assert_eq!(
        at(99, &of(Some("True")), &going, &used).step,
        Some(Step::SetTerminating)
    );
}

#[test]
fn unused_service_cidr_is_released_after_the_grace_period() {
    let going = cidr("a", &["10.0.0.0/24"], true, true, Some("True"));
    assert_eq!(
        at(3, &going, &[], &[]).requeue_after,
        Some(Duration::from_secs(7))
    );
    assert_eq!(at(10, &going, &[], &[]).step, Some(Step::RemoveFinalizer));
    assert_eq!(
        at(0, &going, &[], &[]).requeue_after,
        Some(Duration::from_secs(10))
    );
    assert_eq!(
        at(99, &cidr("a", &[], false, true, None), &[], &[]),
        Decision::default(),
        "not ours any more"
    );
}

proptest! {
    /// Comparison with the definition, address by address: none may be left without a range.
    #[test]
    fn ranges_with_addresses_in_use_are_not_released(
        ranges in proptest::collection::vec((0u8..4, 26u8..31, any::<bool>()), 1..5),
        used in proptest::collection::btree_set(0u8..255, 0..6),
    ) {
        let name = |index: usize| format!("cidr{index}");
        let cidrs: Vec<ServiceCidr> = ranges.iter().enumerate().map(|(index, (quarter, length, deleted))| {
            let net: ipnet::IpNet = format!("10.0.0.{}/{length}", quarter * 64).parse().expect("a range");
            cidr(&name(index), &[&net.to_string()], true, *deleted || index == 0, Some("True"))
        }).collect();
        let used: Vec<String> = used.iter().map(|number| format!("10.0.0.{number}")).collect();
        let addresses: Vec<&str> = used.iter().map(String::as_str).collect();
        let holds = |cidr: &ServiceCidr, address: &str| {
            let net: ipnet::IpNet = cidr.spec.cidrs[0].parse().expect("a range");
            net.contains(&address.parse::<IpAddr>().expect("an address"))
        };
        let stays = |cidr: &&ServiceCidr| cidr.metadata.deletion_timestamp.is_none();
        let is_needed = addresses.iter().any(|address| {
            holds(&cidrs[0], address) && !cidrs.iter().filter(stays).any(|other| holds(other, address))
        });
        let expected = if is_needed { Step::SetTerminating } else { Step::RemoveFinalizer };
        prop_assert_eq!(at(99, &cidrs[0], &cidrs[1..], &addresses).step, Some(expected));
    }
}
