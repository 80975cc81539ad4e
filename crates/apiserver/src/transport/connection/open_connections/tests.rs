use futures_util::FutureExt as _;

use super::*;

/// With room for two connections of an address that have proved nothing.
fn connections() -> Arc<Connections> {
    Arc::new(Connections::new(8))
}

fn connect(connections: &Arc<Connections>, host: u8) -> Connection {
    let arrived = connections
        .arrive(SocketAddr::from(([192, 0, 2, host], 1)))
        .unwrap();
    arrived.shake(None).unwrap()
}

fn is_displaced(connection: &Connection) -> bool {
    connection.displaced().now_or_never().is_some()
}

#[test]
fn a_new_connection_takes_the_place_of_the_oldest_silent_one() {
    let connections = connections();
    let open = [(); 2].map(|()| connect(&connections, 1));
    let other = connect(&connections, 2);
    let new = connect(&connections, 1);
    let displaced = [&open[0], &open[1], &other, &new].map(is_displaced);
    assert_eq!(displaced, [true, false, false, false]);
    // The displaced one has left its place already.
    drop(open);
    assert_eq!(connections.open().census.open(Stage::Unauthenticated), 2);
    drop((other, new));
    assert_eq!(connections.open().census.open(Stage::Unauthenticated), 0);
}

#[test]
fn silent_connections_displace_none_with_a_token() {
    let connections = connections();
    let with_token = connect(&connections, 1);
    with_token.prove();
    let silent: Vec<_> = (0..20).map(|_| connect(&connections, 1)).collect();
    assert!(!is_displaced(&with_token));
    // A displaced connection that proves something comes too late.
    silent[0].prove();
    assert_eq!(connections.open().census.open(Stage::WithToken), 1);
    silent[19].prove();
    assert_eq!(connections.open().census.open(Stage::WithToken), 2);
}

#[test]
fn a_full_pool_of_all_addresses_costs_the_fullest_one_its_oldest() {
    let connections = Arc::new(Connections::new(1_000));
    let mut silent = Vec::new();
    for host in 0..8 {
        silent.extend((0..250).map(|_| connect(&connections, host)));
    }
    drop(silent.pop());
    let last = connect(&connections, 8);
    let new = connect(&connections, 9);
    assert!(!is_displaced(&last) && !is_displaced(&new));
    let displaced = silent.iter().filter(|connection| is_displaced(connection));
    assert_eq!(displaced.count(), 1);
}
