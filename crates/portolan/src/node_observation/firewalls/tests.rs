use explain::observation::ForwardChain;
use netlink::nftables::{Comparison, Register};

use super::*;

fn rule(expressions: Vec<Expression>) -> Rule {
    Rule {
        expressions,
        ..Rule::default()
    }
}

fn to_trusted() -> Expression {
    Expression::Verdict(Verdict::Goto("filter_IN_trusted".to_owned()))
}

fn compare(value: &[u8]) -> Expression {
    Expression::Compare {
        register: Register::at(0),
        comparison: Comparison::Equal,
        value: value.to_vec(),
    }
}

fn load_source(offset: u32, bytes: u32) -> Expression {
    Expression::Payload {
        base: PayloadBase::Network,
        offset,
        bytes,
        into: Register::at(0),
    }
}

#[test]
fn trusted_links_and_sources_of_firewalld_are_read() {
    let link = Expression::Meta {
        key: MetaKey::InputInterface,
        into: Register::at(0),
    };
    let mask = Expression::Mask {
        from: Register::at(0),
        into: Register::at(0),
        mask: vec![0xff, 0xf0, 0, 0],
    };
    let reject = rule(vec![Expression::Other("reject".to_owned())]);
    let zones = "filter_INPUT_ZONES".to_owned();
    let rules = [
        (
            zones.clone(),
            rule(vec![link.clone(), compare(b"cni0\0\0\0\0"), to_trusted()]),
        ),
        (
            zones.clone(),
            rule(vec![load_source(12, 2), compare(&[10, 244]), to_trusted()]),
        ),
        (
            zones.clone(),
            rule(vec![
                load_source(12, 4),
                mask,
                compare(&[172, 16, 0, 0]),
                to_trusted(),
            ]),
        ),
        (
            zones.clone(),
            rule(vec![
                load_source(8, 4),
                compare(&[0xfd, 0, 2, 0x44]),
                to_trusted(),
            ]),
        ),
        (
            zones,
            rule(vec![
                link,
                compare(b"eth0\0"),
                Expression::Verdict(Verdict::Goto("filter_IN_public".to_owned())),
            ]),
        ),
        ("filter_FORWARD".to_owned(), reject.clone()),
        ("filter_INPUT".to_owned(), reject),
    ];
    let firewall = firewalld(&rules);
    assert_eq!(firewall.forwarding.as_deref(), Some("reject"));
    assert_eq!(firewall.input.as_deref(), Some("reject"));
    assert_eq!(firewall.trusted_links, Some(vec!["cni0".to_owned()]));
    let sources: Vec<String> = firewall
        .trusted_sources
        .iter()
        .flatten()
        .map(ToString::to_string)
        .collect();
    assert_eq!(sources, ["10.244.0.0/16", "172.16.0.0/12", "fd00:244::/32"]);
}

#[test]
fn unknown_rules_are_not_verdicts() {
    let firewall = firewalld(&[]);
    assert_eq!((firewall.forwarding, firewall.input), (None, None));
    let odd = [
        rule(Vec::new()),
        rule(vec![load_source(12, u32::MAX), compare(&[])]),
        rule(vec![load_source(12, 40), compare(&[1; 40])]),
        rule(vec![load_source(16, 4), compare(&[1; 4])]),
        rule(vec![load_source(12, 4)]),
    ];
    for rule in &odd {
        assert_eq!((source(rule), input_link(rule)), (None, None), "{rule:?}");
    }
}

#[test]
fn firewalls_of_iptables_have_policies() {
    let mut state = IptablesState::default();
    assert!(of_iptables(&state).is_empty());
    state
        .filter_chains
        .extend(["ufw-before-forward", "DOCKER-USER"].map(str::to_owned));
    state.input_policies = vec!["ACCEPT".to_owned()];
    state.observed.forward = Some(vec![ForwardChain {
        variant: "nft".to_owned(),
        family: "IPv4".to_owned(),
        policy: "DROP".to_owned(),
        rules: None,
    }]);
    let found = of_iptables(&state);
    let described: Vec<(&str, Option<&str>, Option<&str>)> = found
        .iter()
        .map(|firewall| {
            (
                firewall.name.as_str(),
                firewall.forwarding.as_deref(),
                firewall.input.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        described,
        [
            ("ufw", Some("drop"), Some("accept")),
            ("docker", Some("drop"), None)
        ]
    );
}
