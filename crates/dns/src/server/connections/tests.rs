use super::*;

#[test]
fn limits_connections_per_client() {
    let connections = Connections::new();
    let client = |last: u8| IpAddr::from([192, 0, 2, last]);
    let mut permits: Vec<ConnectionPermit> =
        std::iter::from_fn(|| connections.admit(client(1), true)).collect();
    assert_eq!(permits.len(), CONNECTIONS_PER_CLIENT_MAX as usize);
    assert!(connections.admit(client(2), true).is_some());
    permits.pop();
    assert!(
        connections.admit(client(1), true).is_some(),
        "a closed connection makes room"
    );
    for last in 3..=255 {
        permits.extend(std::iter::from_fn(|| connections.admit(client(last), true)));
    }
    assert_eq!(permits.len(), connections.open_max.min(253 * 128 + 127));
}

#[test]
fn refused_clients_cannot_exhaust_connections() {
    let connections = Connections::new();
    let other_client = |at: u16| IpAddr::from([198, 51, (at >> 8) as u8, at as u8]);
    let permits: Vec<ConnectionPermit> = (0..1_000)
        .filter_map(|at| connections.admit(other_client(at), false))
        .collect();
    assert_eq!(permits.len(), REFUSED_CLIENT_CONNECTIONS_MAX);
    assert!(connections.admit(IpAddr::from([192, 0, 2, 1]), true).is_some());
    drop(permits);
    assert!(
        connections.admit(other_client(0), false).is_some(),
        "closed connections make room"
    );
}
