use std::net::Ipv4Addr;

use super::*;

fn client(number: usize) -> IpAddr {
    Ipv4Addr::from_bits(number as u32).into()
}

#[test]
fn client_expires_after_its_timeout() {
    let backend: SocketAddr = ([10, 0, 0, 1], 80).into();
    let mut sticky = StickyClients::new(Duration::from_secs(60));
    sticky.insert(client(1), backend, Duration::from_secs(100));
    assert_eq!(sticky.backend(client(1), Duration::from_secs(159)), Some(backend));
    assert_eq!(sticky.backend(client(1), Duration::from_secs(160)), None);
    assert_eq!(sticky.backend(client(2), Duration::from_secs(100)), None);
    sticky.retain_backends(|_| false);
    assert_eq!(sticky.backend(client(1), Duration::from_secs(100)), None);
}

#[test]
fn full_table_accepts_clients_after_others_expire() {
    let backend: SocketAddr = ([10, 0, 0, 1], 80).into();
    let mut sticky = StickyClients::new(Duration::from_secs(60));
    for number in 0..CLIENTS_MAX {
        sticky.insert(client(number), backend, Duration::ZERO);
    }
    let newcomer = client(CLIENTS_MAX);
    sticky.insert(newcomer, backend, Duration::from_secs(59));
    assert_eq!(sticky.backend(newcomer, Duration::from_secs(59)), None);
    sticky.insert(client(0), backend, Duration::from_secs(59));
    sticky.insert(newcomer, backend, Duration::from_secs(60));
    assert_eq!(sticky.backend(newcomer, Duration::from_secs(60)), Some(backend));
    assert_eq!(sticky.clients.len(), 2);
}
