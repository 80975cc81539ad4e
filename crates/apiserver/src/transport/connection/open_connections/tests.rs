use futures_util::FutureExt as _;

use super::*;

/// Registry with room for two unauthenticated connections of an address.
fn connections() -> Arc<Connections> {
    Arc::new(Connections::new(8))
}

fn connect(connections: &Arc<Connections>, host: u8) -> Connection {
    let handshaking = connections
        .accept(SocketAddr::from(([192, 0, 2, host], 1)))
        .unwrap();
    handshaking.complete(None).unwrap()
}

fn is_displaced(connection: &Connection) -> bool {
    connection.displaced().now_or_never().is_some()
}

#[test]
fn new_connection_displaces_the_oldest_unauthenticated_one() {
    let connections = connections();
    let open = [(); 2].map(|()| connect(&connections, 1));
    let other = connect(&connections, 2);
    let new = connect(&connections, 1);
    let displaced = [&open[0], &open[1], &other, &new].map(is_displaced);
    assert_eq!(displaced, [true, false, false, false]);
    // The displaced connection is not counted any more.
    drop(open);
    assert_eq!(connections.open().counts.open(Stage::Unauthenticated), 2);
    drop((other, new));
    assert_eq!(connections.open().counts.open(Stage::Unauthenticated), 0);
}

#[test]
fn unauthenticated_connections_displace_none_with_a_token() {
    let connections = connections();
    let with_token = connect(&connections, 1);
    with_token.authenticate();
    let unauthenticated: Vec<_> = (0..20).map(|_| connect(&connections, 1)).collect();
    assert!(!is_displaced(&with_token));
    // A displaced connection cannot authenticate any more.
    unauthenticated[0].authenticate();
    assert_eq!(connections.open().counts.open(Stage::WithToken), 1);
    unauthenticated[19].authenticate();
    assert_eq!(connections.open().counts.open(Stage::WithToken), 2);
}

#[test]
fn full_pool_displaces_the_oldest_of_the_fullest_address() {
    let connections = Arc::new(Connections::new(1_000));
    let mut unauthenticated = Vec::new();
    for host in 0..8 {
        unauthenticated.extend((0..250).map(|_| connect(&connections, host)));
    }
    drop(unauthenticated.pop());
    let last = connect(&connections, 8);
    let new = connect(&connections, 9);
    assert!(!is_displaced(&last) && !is_displaced(&new));
    let displaced = unauthenticated
        .iter()
        .filter(|connection| is_displaced(connection));
    assert_eq!(displaced.count(), 1);
}
