use std::net::Ipv4Addr;

use super::*;

fn source(last: u8) -> Source {
    Source::from(std::net::IpAddr::from(Ipv4Addr::new(192, 0, 2, last)))
}

fn begin(unproved: &mut Unproved, source: Source) -> Arc<Displaceable> {
    let connection = Arc::<Displaceable>::default();
    unproved.begin(source, &connection);
    connection
}

#[test]
fn displaces_the_oldest_connection_of_the_same_source() {
    let mut unproved = Unproved::default();
    let other = begin(&mut unproved, source(2));
    let [first, second] = [(); 2].map(|()| begin(&mut unproved, source(1)));
    assert_eq!(unproved.fullest(), Some(source(1)));
    assert!(unproved.displace_oldest(source(1)));
    let displaced = [&other, &first, &second].map(|connection| connection.is_displaced());
    assert_eq!(displaced, [false, true, false]);
}

#[test]
fn displaces_no_connection_that_has_left() {
    let mut unproved = Unproved::default();
    let only = begin(&mut unproved, source(1));
    unproved.end(source(1), &only);
    assert!(!unproved.displace_oldest(source(1)));
    assert!(!only.is_displaced());
    assert!(unproved.0.is_empty());
}
