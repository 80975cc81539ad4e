use super::*;

#[test]
fn a_client_gets_so_many_places_and_others_theirs() {
    let connections = Connections::new();
    let client = |last: u8| IpAddr::from([192, 0, 2, last]);
    let mut places: Vec<Place> = std::iter::from_fn(|| connections.admit(client(1))).collect();
    assert_eq!(places.len(), CONNECTIONS_OF_CLIENT_MAX as usize);
    assert!(connections.admit(client(2)).is_some());
    places.pop();
    assert!(
        connections.admit(client(1)).is_some(),
        "a closed connection makes room"
    );
    for last in 3..=255 {
        places.extend(std::iter::from_fn(|| connections.admit(client(last))));
    }
    assert_eq!(places.len(), connections.open_max.min(253 * 128 + 127));
}
