use super::*;

const OWN_PROTOCOL: u8 = 112;

fn rule(family: RuleFamily, source: Option<&str>, mark: Option<RuleMark>, table: u32) -> Rule {
    Rule {
        family,
        priority: 1017,
        source: source.map(|text| text.parse().expect("a range")),
        mark,
        table: RouteTable(table),
        protocol: OWN_PROTOCOL,
    }
}

fn rules() -> [Rule; 5] {
    let mark = RuleMark {
        value: 0x0012_0000,
        mask: 0x00ff_0000,
    };
    [
        rule(RuleFamily::V4, Some("10.244.1.7/32"), None, 112),
        rule(RuleFamily::V4, None, Some(mark), 70_000),
        rule(RuleFamily::V4, Some("10.244.0.0/16"), Some(mark), 254),
        rule(RuleFamily::V6, Some("fd00:244::7/128"), None, 70_001),
        rule(RuleFamily::V6, None, Some(RuleMark { value: 0, mask: 1 }), 113),
    ]
}

#[test]
fn requests_decode_to_their_rule() {
    for rule in rules() {
        let bytes = request(libc::RTM_NEWRULE, 0, &rule).finish(1);
        assert_eq!(parse(&bytes[16..]), Some(rule));
        for length in 16..bytes.len() {
            // No part of a message panics, and none decodes to another family.
            let part = parse(&bytes[16..length]);
            assert!(part.is_none_or(|part| part.family == rule.family), "{length}");
        }
    }
}

#[test]
fn other_actions_and_families_are_skipped() {
    let mut part = [0; FIXED_BYTES];
    part[7] = FR_ACT_TO_TBL;
    assert_eq!(parse(&part), None);
    part[0] = libc::AF_INET as u8;
    assert!(parse(&part).is_some());
    part[7] = 6;
    assert_eq!(parse(&part), None);
}

#[test]
fn prefix_of_other_family_is_skipped() {
    let mut rule = rule(RuleFamily::V4, Some("fd00::1/128"), None, 112);
    let bytes = request(libc::RTM_NEWRULE, 0, &rule).finish(1);
    // The kernel rejects this; decoding must not panic.
    parse(&bytes[16..]);
    rule.source = Some("10.0.0.1/32".parse().expect("a range"));
    let mut bytes = request(libc::RTM_NEWRULE, 0, &rule).finish(1);
    bytes[18] = 33;
    assert_eq!(parse(&bytes[16..]), None);
}

#[test]
fn rules_are_added_and_deleted() {
    testbed::in_namespace(|| {
        let mut connection = Connection::open().expect("a socket");
        for rule in rules() {
            connection.add_rule(&rule).expect("added");
            assert!(connection.rules().expect("rules").contains(&rule), "{rule:?}");
            assert!(
                connection
                    .add_rule(&rule)
                    .expect_err("twice")
                    .is_already_present()
            );
        }
        for rule in rules() {
            connection.delete_rule(&rule).expect("deleted");
            assert!(!connection.rules().expect("rules").contains(&rule), "{rule:?}");
            assert!(connection.delete_rule(&rule).expect_err("twice").is_absent());
        }
        let rest = connection.rules().expect("rules");
        assert!(rest.iter().all(|rule| rule.protocol != OWN_PROTOCOL));
        assert!(rest.iter().any(|rule| rule.table == RouteTable::MAIN));
    });
}
