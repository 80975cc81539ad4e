use super::*;

#[test]
fn derived_names_are_valid_and_distinct() {
    assert_eq!(derived_service("web"), "derived-web");
    let long = "a".repeat(63);
    let name = derived_service(&long);
    assert_eq!(name.len(), SERVICE_NAME_BYTES_MAX);
    assert!(api::names::dns_1035_label(&name).is_empty(), "{name}");
    assert_ne!(name, derived_service(&format!("{}b", "a".repeat(62))));
}

#[test]
fn mirrored_names_depend_on_cluster_source_and_address_type() {
    let (east, west) = ("east".parse().unwrap(), "west".parse().unwrap());
    let names = [
        mirrored_slice("web", &east, "web-1", AddressType::IPv4),
        mirrored_slice("web", &west, "web-1", AddressType::IPv4),
        mirrored_slice("web", &east, "web-2", AddressType::IPv4),
        mirrored_slice("web", &east, "web-1", AddressType::IPv6),
    ];
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    for name in &names {
        assert!(api::names::dns_subdomain(name).is_empty(), "{name}");
    }
}

#[test]
fn mirrored_names_are_distinct_for_names_with_hyphens() {
    let (both, last) = ("a-b".parse().unwrap(), "b".parse().unwrap());
    assert_ne!(
        mirrored_slice("web", &both, "web-1", AddressType::IPv4),
        mirrored_slice("web-a", &last, "web-1", AddressType::IPv4)
    );
}
