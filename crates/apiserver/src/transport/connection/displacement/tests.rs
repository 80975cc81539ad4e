use std::net::Ipv4Addr;

use super::*;

fn source(last: u8) -> Source {
    Source::from(std::net::IpAddr::from(Ipv4Addr::new(192, 0, 2, last)))
}

fn push(queue: &mut DisplacementQueue, source: Source) -> Arc<Displaceable> {
    let connection = Arc::<Displaceable>::default();
    queue.push(source, &connection);
    connection
}

#[test]
fn displaces_the_oldest_connection_of_the_same_source() {
    let mut queue = DisplacementQueue::default();
    let other = push(&mut queue, source(2));
    let [first, second] = [(); 2].map(|()| push(&mut queue, source(1)));
    assert_eq!(queue.largest_source(), Some(source(1)));
    assert!(queue.displace_oldest(source(1)));
    let displaced = [&other, &first, &second].map(|connection| connection.is_displaced());
    assert_eq!(displaced, [false, true, false]);
}

#[test]
fn displaces_no_removed_connection() {
    let mut queue = DisplacementQueue::default();
    let only = push(&mut queue, source(1));
    queue.remove(source(1), &only);
    assert!(!queue.displace_oldest(source(1)));
    assert!(!only.is_displaced());
    assert!(queue.0.is_empty());
}
