use super::*;

/// A packet of a Pod to the port of another node is dropped before it is masqueraded.
#[test]
fn encapsulated_packets_of_others_reach_no_other_node() {
    for family in [Family::V4, Family::V6] {
        let rule = foreign_forwarding_rule(family);
        let of_destination = [
            address_of(family, AddressField::Destination),
            lookup(SOURCES, FIRST, Destination::Found),
        ];
        let of_source = drop_unless_of_node(family);
        assert_eq!(
            rule,
            [&match_encapsulated()[..], &of_destination, &of_source].concat()
        );
        assert_eq!(of_source.last(), Some(&Expression::Verdict(Verdict::Drop)));
    }
}
