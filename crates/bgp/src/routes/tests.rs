//! Differences between desired and sent routes.

use std::sync::Arc;

use ipnet::IpNet;
use proptest::prelude::*;

use super::{Advertised, BATCH_PREFIXES_MAX, COMMUNITIES_MAX, ROUTES_MAX, RouteAttributes, Routes};
use crate::Family;
use crate::community::{AnyCommunity, Community};

fn attributes(community: u32) -> Arc<RouteAttributes> {
    let mut attributes = RouteAttributes::default();
    assert!(attributes.add(AnyCommunity::Standard(Community(community))));
    Arc::new(attributes)
}

fn prefix(number: u32) -> IpNet {
    let address = std::net::Ipv4Addr::from(0x0a00_0000 + number);
    IpNet::new(address.into(), 32).expect("a prefix")
}

/// Sends everything; returns the number of messages, with at most `fitting` prefixes each.
fn send_all(advertised: &mut Advertised, fitting: usize) -> usize {
    let mut messages = 0;
    while let Some(batch) = advertised.next_batch(|_| true) {
        advertised.sent(&batch, fitting);
        messages += 1;
    }
    messages
}

#[test]
fn changes_cost_messages_and_repetitions_none() {
    let mut advertised = Advertised::default();
    let routes: Routes = (0..300).map(|number| (prefix(number), attributes(1))).collect();
    assert_eq!(advertised.set(routes.clone()), 0);
    assert_eq!(send_all(&mut advertised, 200), 2);
    advertised.set(routes.clone());
    assert_eq!(advertised.pending_count(), 0);
    // A change that is undone before it is sent costs nothing.
    advertised.set(Routes::new());
    assert_eq!(advertised.pending_count(), 300);
    advertised.set(routes.clone());
    assert_eq!(send_all(&mut advertised, 200), 0);
    assert_eq!(advertised.sent_routes(), &routes);
}

#[test]
fn refresh_sends_one_family_again() {
    let mut advertised = Advertised::default();
    let six: IpNet = "fd00::1/128".parse().expect("a prefix");
    advertised.set(Routes::from([(prefix(1), attributes(1)), (six, attributes(1))]));
    send_all(&mut advertised, 10);
    advertised.refresh(Family::Ipv6);
    let batch = advertised.next_batch(|_| true).expect("a batch");
    assert_eq!(batch.prefixes, [six]);
    assert_eq!(advertised.next_batch(|family| family == Family::Ipv4), None);
}

#[test]
fn refresh_keeps_pending_withdrawals() {
    let mut advertised = Advertised::default();
    advertised.set(Routes::from([
        (prefix(1), attributes(1)),
        (prefix(2), attributes(1)),
    ]));
    send_all(&mut advertised, 10);
    advertised.set(Routes::from([(prefix(1), attributes(1))]));
    advertised.refresh(Family::Ipv4);
    advertised.refresh(Family::Ipv4);
    let batch = advertised.next_batch(|_| true).expect("a withdrawal");
    assert_eq!(
        (batch.attributes.clone(), &*batch.prefixes),
        (None, &[prefix(2)][..])
    );
    advertised.sent(&batch, 1);
    // Both requests lead to one repetition.
    assert_eq!(send_all(&mut advertised, 10), 1);
    assert_eq!(
        advertised.sent_routes(),
        &Routes::from([(prefix(1), attributes(1))])
    );
}

#[test]
fn bounds_routes_and_communities() {
    let mut advertised = Advertised::default();
    let shared = attributes(1);
    let routes = (0..70_000)
        .map(|number| (prefix(number), Arc::clone(&shared)))
        .collect();
    assert_eq!(advertised.set(routes), 70_000 - ROUTES_MAX);
    assert_eq!(advertised.desired_count(), ROUTES_MAX);
    let batch = advertised.next_batch(|_| true).expect("a batch");
    assert!(batch.prefixes.len() <= BATCH_PREFIXES_MAX + 1);
    let mut attributes = RouteAttributes::default();
    let count = (0..100)
        .filter(|number| attributes.add(AnyCommunity::Standard(Community(*number))))
        .count();
    assert_eq!(count, COMMUNITIES_MAX);
    assert!(attributes.add(AnyCommunity::Standard(Community(0))));
}

proptest! {
    /// However desired routes change and messages are sent between, the peer ends with the desired routes.
    #[test]
    fn peer_ends_with_desired_routes(steps in proptest::collection::vec((0u32..12, 0u32..3, any::<bool>()), 0..60)) {
        let mut advertised = Advertised::default();
        let mut desired = Routes::new();
        for (number, community, sends) in steps {
            if community == 0 {
                desired.remove(&prefix(number));
            } else {
                desired.insert(prefix(number), attributes(community));
            }
            advertised.set(desired.clone());
            if sends && let Some(batch) = advertised.next_batch(|_| true) {
                advertised.sent(&batch, 2);
            }
        }
        send_all(&mut advertised, 2);
        prop_assert_eq!(advertised.sent_routes(), &desired);
        prop_assert_eq!(advertised.pending_count(), 0);
    }
}
