use std::net::Ipv4Addr;

use super::*;

fn client(number: usize) -> IpAddr {
    Ipv4Addr::from_bits(number as u32).into()
}

#[test]
fn a_client_stays_until_its_time_is_over() {
    let backend: SocketAddr = ([10, 0, 0, 1], 80).into();
    let mut sticky = Sticky::new(Duration::from_secs(60));
    sticky.remember(client(1), backend, Duration::from_secs(100));
    assert_eq!(sticky.backend(client(1), Duration::from_secs(159)), Some(backend));
    assert_eq!(sticky.backend(client(1), Duration::from_secs(160)), None);
    assert_eq!(sticky.backend(client(2), Duration::from_secs(100)), None);
    sticky.keep_only(|_| false);
    assert_eq!(sticky.backend(client(1), Duration::from_secs(100)), None);
}

#[test]
fn a_full_table_takes_new_clients_when_others_have_expired() {
    let backend: SocketAddr = ([10, 0, 0, 1], 80).into();
    let mut sticky = Sticky::new(Duration::from_secs(60));
    for number in 0..CLIENTS_MAX {
        sticky.remember(client(number), backend, Duration::ZERO);
    }
    let newcomer = client(CLIENTS_MAX);
    sticky.remember(newcomer, backend, Duration::from_secs(59));
    assert_eq!(sticky.backend(newcomer, Duration::from_secs(59)), None);
    sticky.remember(client(0), backend, Duration::from_secs(59));
    sticky.remember(newcomer, backend, Duration::from_secs(60));
    assert_eq!(sticky.backend(newcomer, Duration::from_secs(60)), Some(backend));
    assert_eq!(sticky.clients.len(), 2);
}
