use std::net::Ipv4Addr;
use std::time::Duration;

use super::*;

/// Time limit for a datagram on loopback.
const TIMEOUT: Duration = Duration::from_secs(10);

#[test]
fn memory_of_a_batch_grows_with_the_load() {
    let [server, client] = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket"));
    server.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    let address = server.local_addr().expect("an address");
    let send = |number: u8| client.send_to(&[number], address).expect("a datagram");
    let mut batch = Batch::new();
    assert!(batch.slots.is_empty());
    let mut received = Vec::new();
    let receive = |batch: &mut Batch, received: &mut Vec<u8>| {
        let slots = batch.receive(&server).expect("datagrams");
        received.extend(slots.iter_mut().flat_map(|slot| slot.split().0.to_vec()));
    };
    send(0);
    receive(&mut batch, &mut received);
    assert_eq!((received.as_slice(), batch.slots.len()), (&[0][..], BATCH_MIN));
    for number in 1..64 {
        send(number);
    }
    while received.len() < 64 {
        receive(&mut batch, &mut received);
        assert!(batch.slots.len() <= BATCH_MAX);
    }
    assert!(received.into_iter().eq(0..64));
}
