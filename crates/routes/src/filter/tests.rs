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
    for (family, local, source, destination) in [
        (&FAMILIES[0], "192.0.2.1", 12, 16),
        (&FAMILIES[1], "2001:db8::1", 8, 24),
    ] {
        let filter = Filter {
            port: 4789,
            local: local.parse().expect("an address"),
            nodes: BTreeSet::new(),
        };
        let [own, others] = [Packets::ToOwn, Packets::ToOthers].map(|packets| rule(family, &filter, packets));
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

/// IPVS sends the packets of clients through the hook `output`.
#[test]
fn packets_to_other_nodes_have_the_address_of_this_node() {
    let filter = Filter {
        port: 4789,
        local: [192, 0, 2, 1].into(),
        nodes: BTreeSet::new(),
    };
    let [ipv4, ipv6] = FAMILIES.map(|family| {
        let rule = rule(&family, &filter, Packets::Sent);
        assert_eq!(rule.expressions.last(), Some(&Expression::Verdict(Verdict::Drop)));
        rule
    });
    let other_source = Expression::Compare {
        register: FIRST,
        comparison: Comparison::NotEqual,
        value: vec![192, 0, 2, 1],
    };
    assert!(ipv4.expressions.contains(&other_source));
    let has_exception = |rule: &Rule| {
        let mut expressions = rule.expressions.iter();
        expressions.any(|expression| {
            matches!(
                expression,
                Expression::Compare {
                    comparison: Comparison::NotEqual,
                    ..
                }
            )
        })
    };
    assert!(!has_exception(&ipv6), "no packets over IPv6");
}
