use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use api::object::ServiceCidr;
use proptest::prelude::*;
use serde_json::json;

use super::{Inputs, Outcome, Step, reconcile};

const DELETED: &str = "2026-01-01T00:00:00Z";

/// A ServiceCIDR as far as it can be told by name, ranges, finalizer, deletion and condition.
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

fn at(seconds: u64, cidr: &ServiceCidr, others: &[ServiceCidr], addresses: &[&str]) -> Outcome {
    let addresses: BTreeSet<IpAddr> = addresses.iter().map(|a| a.parse().expect("an address")).collect();
    let all: Vec<&ServiceCidr> = others.iter().chain([cidr]).collect();
    reconcile(&Inputs {
        cidr,
        all: &all,
        addresses: &addresses,
        deleted_for: Duration::from_secs(seconds),
    })
}

#[test]
fn a_new_one_is_held_first_and_ready_then() {
    let step = |is_held, ready| at(0, &cidr("a", &["10.0.0.0/24"], is_held, false, ready), &[], &[]).step;
    assert_eq!(step(false, None), Some(Step::Hold));
    assert_eq!(step(true, None), Some(Step::SayReady));
    assert_eq!(step(true, Some("False")), Some(Step::SayReady));
    assert_eq!(step(true, Some("True")), None);
}

#[test]
fn one_that_addresses_need_waits_and_says_so_once() {
    let of = |ready| cidr("a", &["10.0.0.0/24", "fd00::/64"], true, true, ready);
    let used = ["fd00::7"];
    assert_eq!(at(99, &of(Some("True")), &[], &used).step, Some(Step::SayWaiting));
    assert_eq!(at(99, &of(Some("False")), &[], &used), Outcome::default());
    // An address elsewhere needs it not, and neither does one that another range has too.
    assert_eq!(
        at(99, &of(Some("False")), &[], &["10.0.1.1"]).step,
        Some(Step::Release)
    );
    let other = [cidr("b", &["fd00::/56"], true, false, Some("True"))];
    assert_eq!(
        at(99, &of(Some("False")), &other, &used).step,
        Some(Step::Release)
    );
    // But one that goes itself is no help.
    let going = [cidr("b", &["fd00::/56"], true, true, Some("True"))];
    assert_eq!(
        at(99, &of(Some("True")), &going, &used).step,
        Some(Step::SayWaiting)
    );
}

#[test]
fn one_that_may_go_waits_until_everybody_knows() {
    let going = cidr("a", &["10.0.0.0/24"], true, true, Some("True"));
    assert_eq!(at(3, &going, &[], &[]).again_after, Some(Duration::from_secs(7)));
    assert_eq!(at(10, &going, &[], &[]).step, Some(Step::Release));
    assert_eq!(at(0, &going, &[], &[]).again_after, Some(Duration::from_secs(10)));
    assert_eq!(
        at(99, &cidr("a", &[], false, true, None), &[], &[]),
        Outcome::default(),
        "not ours any more"
    );
}

proptest! {
    /// Against the definition, address by address: none may be left without a range.
    #[test]
    fn nothing_is_released_that_an_address_needs(
        ranges in proptest::collection::vec((0u8..4, 26u8..31, any::<bool>()), 1..5),
        used in proptest::collection::btree_set(0u8..255, 0..6),
    ) {
        let name = |index: usize| format!("cidr{index}");
        let cidrs: Vec<ServiceCidr> = ranges.iter().enumerate().map(|(index, (quarter, length, deleted))| {
            let net: ipnet::IpNet = format!("10.0.0.{}/{length}", quarter * 64).parse().expect("a range");
            cidr(&name(index), &[&net.to_string()], true, *deleted || index == 0, Some("True"))
        }).collect();
        let used: Vec<String> = used.iter().map(|n| format!("10.0.0.{n}")).collect();
        let addresses: Vec<&str> = used.iter().map(String::as_str).collect();
        let holds = |cidr: &ServiceCidr, address: &str| {
            let net: ipnet::IpNet = cidr.spec.cidrs[0].parse().expect("a range");
            net.contains(&address.parse::<IpAddr>().expect("an address"))
        };
        let stays = |cidr: &&ServiceCidr| cidr.metadata.deletion_timestamp.is_none();
        let is_needed = addresses.iter().any(|address| {
            holds(&cidrs[0], address) && !cidrs.iter().filter(stays).any(|other| holds(other, address))
        });
        let wanted = if is_needed { Step::SayWaiting } else { Step::Release };
        prop_assert_eq!(at(99, &cidrs[0], &cidrs[1..], &addresses).step, Some(wanted));
    }
}
