use std::net::Ipv4Addr;

use super::*;

fn flow(port: u16, is_confirmed: bool, last: u64) -> (SocketAddr, FlowUse) {
    let client = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    (client, FlowUse { is_confirmed, last })
}

fn ended(flows: &[(SocketAddr, FlowUse)], count: usize) -> Vec<u16> {
    let clients = least_used(flows.iter().copied(), count);
    let mut ports: Vec<u16> = clients.iter().map(SocketAddr::port).collect();
    ports.sort_unstable();
    ports
}

#[test]
fn flows_without_a_datagram_after_a_response_end_first() {
    let flows = [
        flow(1, true, 10),
        flow(2, false, 40),
        flow(3, false, 20),
        flow(4, true, 30),
    ];
    assert_eq!(ended(&flows, 0), [0_u16; 0]);
    assert_eq!(ended(&flows, 1), [3]);
    assert_eq!(ended(&flows, 2), [2, 3]);
    assert_eq!(ended(&flows, 3), [1, 2, 3]);
    assert_eq!(ended(&flows, 9), [1, 2, 3, 4]);
}
