use serde_json::json;

use super::*;

fn pool_of(addresses: serde_json::Value) -> World {
    let mut builder = World::builder();
    builder.add(
        json!({"kind": "IPAddressPool", "apiVersion": "metallb.io/v1beta1",
        "metadata": {"name": "lan", "namespace": "metallb-system"}, "spec": {"addresses": addresses}}),
    );
    builder.build()
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn blocks_are_ranges_and_networks() {
    let world = pool_of(json!([
        "192.0.2.10-192.0.2.11",
        "198.51.100.1/30",
        "2001:db8::/120"
    ]));
    let pools = pools(&world);
    assert!(pools[0].is_readable());
    for inside in ["192.0.2.11", "198.51.100.3", "2001:db8::7"] {
        assert!(pools[0].contains(address(inside)), "{inside}");
    }
    assert!(!pools[0].contains(address("192.0.2.12")));
    assert!(pools[0].has_family(true) && pools[0].has_family(false));
}

#[test]
fn pool_with_an_unknown_block_is_not_readable() {
    let world = pool_of(json!(["192.0.2.10-192.0.2.11", "office"]));
    assert!(!pools(&world)[0].is_readable());
    assert!(!pools(&pool_of(json!([])))[0].is_readable());
}

#[test]
fn pool_is_full_when_all_addresses_are_used() {
    let world = pool_of(json!(["192.0.2.10/32", "192.0.2.12-192.0.2.12", "2001:db8::/64"]));
    let pools = pools(&world);
    let mut used: BTreeSet<IpAddr> = [address("192.0.2.10"), address("192.0.2.11")].into();
    assert!(!pools[0].is_full(false, &used));
    used.insert(address("192.0.2.12"));
    assert!(pools[0].is_full(false, &used));
    assert!(!pools[0].is_full(true, &used));
}
