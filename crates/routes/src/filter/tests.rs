use super::*;

/// Returns the addresses that a rule compares with the set: the offset in the IP header, and the result that continues.
fn lookups(rule: &Rule) -> Vec<(u32, Destination)> {
    let mut loaded = None;
    let mut lookups = Vec::new();
    for expression in &rule.expressions {
        match expression {
            Expression::Payload {
                base: PayloadBase::Network,
                offset,
                bytes,
                ..
            } => loaded = Some((*offset, *bytes)),
            Expression::Lookup { into, .. } => {
                let (offset, bytes) = loaded.take().expect("an address");
                assert!([4, 16].contains(&bytes));
                lookups.push((offset, *into));
            }
            _ => {}
        }
    }
    lookups
}

/// A packet of a Pod to the port of another Node is dropped before it is masqueraded.
#[test]
fn packets_of_others_reach_neither_this_node_nor_other_ones() {
    for (family, source, destination) in [(&FAMILIES[0], 12, 16), (&FAMILIES[1], 8, 24)] {
        let [own, others] = [Packets::ToOwn, Packets::ToOthers].map(|packets| rule(family, 4789, packets));
        assert_eq!(lookups(&own), [(source, Destination::NotFound)]);
        assert_eq!(
            lookups(&others),
            [(destination, Destination::Found), (source, Destination::NotFound)]
        );
        for rule in [own, others] {
            assert_eq!(rule.expressions.last(), Some(&Expression::Verdict(Verdict::Drop)));
        }
    }
}
