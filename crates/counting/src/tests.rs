use super::*;

#[test]
fn ipv6_clients_count_by_their_network_and_others_by_address() {
    let cases = [
        ("2001:db8:0:1:a:b:c:d", "2001:db8:0:1::"),
        ("2001:db8:0:1::1", "2001:db8:0:1::"),
        ("2001:db8:0:2::1", "2001:db8:0:2::"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.1"),
        ("::1", "::1"),
    ];
    for (client, expected) in cases {
        let address = client.parse().expect("an address");
        assert_eq!(client_network(address).to_string(), expected, "{client}");
    }
}
