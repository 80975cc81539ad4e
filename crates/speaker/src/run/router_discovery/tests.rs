//! Messages of routers, and routers that replace others.

use std::net::{Ipv6Addr, SocketAddr};

use tokio::sync::watch;
use tokio::time::Instant;

use super::{
    ADVERTISEMENT_BYTES, REPLACEMENT_DELAY, Router, Routers, advertisement, advertiser, filter_of, record,
};

fn source(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), 0)
}

fn router(address: &str) -> Router {
    Router {
        address: address.parse().expect("an address"),
        link_index: 2,
    }
}

#[test]
fn accepts_advertisements_of_link_local_routers_only() {
    let message = advertisement();
    let expected: Ipv6Addr = "fe80::1".parse().expect("an address");
    assert_eq!(advertiser(&message, source("fe80::1")), Some(expected));
    for address in ["fd00::1", "::1", "192.0.2.1"] {
        assert_eq!(advertiser(&message, source(address)), None, "{address}");
    }
    let short = &message[..ADVERTISEMENT_BYTES - 1];
    assert_eq!(advertiser(short, source("fe80::1")), None);
    let mut other = message;
    other[1] = 1;
    assert_eq!(advertiser(&other, source("fe80::1")), None);
    assert_eq!(advertiser(&[], source("fe80::1")), None);
}

#[test]
fn icmp_filter_passes_one_type() {
    let filter = filter_of(134);
    assert_eq!(filter[4], !(1 << 6));
    assert!(filter.iter().filter(|bits| **bits == u32::MAX).count() == 7);
}

#[test]
fn present_router_stays_while_it_advertises() {
    let (sender, receiver) = watch::channel(Routers::new());
    let mut last = None;
    record(router("fe80::1"), "eth0", &mut last, &sender);
    record(router("fe80::2"), "eth0", &mut last, &sender);
    assert_eq!(receiver.borrow().get("eth0"), Some(&router("fe80::1")));
    let long_ago = Instant::now().checked_sub(REPLACEMENT_DELAY).expect("a time");
    last = Some((router("fe80::1"), long_ago));
    record(router("fe80::2"), "eth0", &mut last, &sender);
    assert_eq!(receiver.borrow().get("eth0"), Some(&router("fe80::2")));
}

#[test]
fn port_of_a_router_names_its_link() {
    assert_eq!(router("fe80::1").port(179).to_string(), "[fe80::1%2]:179");
}
