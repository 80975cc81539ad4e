use std::net::Ipv4Addr;

use super::*;

fn source(last: u8) -> Source {
    Source::from(std::net::IpAddr::from(Ipv4Addr::new(192, 0, 2, last)))
}

#[test]
fn displaces_the_oldest_handshake_of_the_same_source() {
    let mut handshakes = Handshakes::default();
    let other = handshakes.begin(source(2));
    let [first, second] = [(); 2].map(|()| handshakes.begin(source(1)));
    assert!(handshakes.displace_oldest(source(1)));
    let displaced = [&other, &first, &second].map(|handshake| handshake.is_displaced());
    assert_eq!(displaced, [false, true, false]);
}

#[test]
fn displaces_no_handshake_that_is_over() {
    let mut handshakes = Handshakes::default();
    let only = handshakes.begin(source(1));
    handshakes.end(source(1), &only);
    assert!(!handshakes.displace_oldest(source(1)));
    assert!(!only.is_displaced());
    assert!(handshakes.0.is_empty());
}
