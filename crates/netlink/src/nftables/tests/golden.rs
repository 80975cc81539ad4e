//! A table with one object of every kind.

use crate::nftables::*;

pub(super) const TABLE: &str = "golden";

pub(super) fn table() -> Table {
    Table {
        name: TABLE.to_owned(),
        comment: "a table".to_owned(),
        is_dormant: false,
    }
}

pub(super) fn chain(name: &str, base: Option<BaseChain>) -> Chain {
    Chain {
        name: name.to_owned(),
        base,
        comment: format!("chain {name}"),
    }
}

pub(super) fn nat(hook: Hook, priority: i32) -> Option<BaseChain> {
    Some(BaseChain {
        kind: ChainKind::Nat,
        hook,
        priority,
    })
}

fn set(name: &str, key: &[Field], value: SetValue) -> Set {
    Set {
        name: name.to_owned(),
        key: key.to_vec(),
        value,
        is_interval: false,
        dynamic_size: None,
        comment: format!("set {name}"),
    }
}

pub(super) fn sets() -> Vec<Set> {
    let frontend = [Field::Ipv4, Field::Protocol, Field::Port];
    vec![
        set("codes", &frontend, SetValue::Fields(vec![Field::Mark])),
        set(
            "endpoints",
            &[Field::Mark, Field::Mark],
            SetValue::Fields(vec![Field::Ipv4, Field::Port]),
        ),
        set("sources", &[Field::Ipv4], SetValue::Fields(vec![Field::Ipv4])),
        set("verdicts", &[Field::Mark], SetValue::Verdict),
        set("ports", &[Field::Port], SetValue::None),
        set("six", &[Field::Ipv6], SetValue::None),
        Set {
            is_interval: true,
            ..set("ranges", &[Field::Ipv4], SetValue::None)
        },
        Set {
            is_interval: true,
            ..set("pairs", &[Field::Port, Field::Ipv4], SetValue::None)
        },
        Set {
            dynamic_size: Some(1000),
            ..set("kept", &[Field::Ipv4], SetValue::Fields(vec![Field::Mark]))
        },
    ]
}

/// Returns rules with every expression, which the kernel accepts: chain, rule, nft's output.
pub(super) fn rules() -> Vec<(&'static str, Rule, &'static str)> {
    [dispatch(), refusals(), effects(), states()].concat()
}

const fn r(index: u8) -> Register {
    Register::at(index)
}

fn rule(expressions: Vec<Expression>) -> Rule {
    Rule {
        expressions,
        comment: "why".to_owned(),
    }
}

/// Returns a rule for IPv4 only; nft prints addresses only in such rules.
fn with_ipv4(rest: Vec<Expression>) -> Rule {
    let ipv4 = [
        meta(MetaKey::Family, r(0)),
        compare(r(0), Comparison::Equal, &[libc::NFPROTO_IPV4 as u8]),
    ];
    rule(ipv4.into_iter().chain(rest).collect())
}

fn meta(key: MetaKey, into: Register) -> Expression {
    Expression::Meta { key, into }
}

fn ct(key: CtKey, into: Register) -> Expression {
    Expression::Ct { key, into }
}

fn compare(register: Register, comparison: Comparison, value: &[u8]) -> Expression {
    Expression::Compare {
        register,
        comparison,
        value: value.to_vec(),
    }
}

fn mask(register: Register, mask: [u8; 4]) -> Expression {
    Expression::Mask {
        from: register,
        into: register,
        mask: mask.to_vec(),
    }
}

fn lookup(set: &str, key: Register, into: Destination) -> Expression {
    Expression::Lookup {
        set: set.to_owned(),
        key,
        into,
    }
}

fn payload(base: PayloadBase, offset: u32, bytes: u32, into: Register) -> Expression {
    Expression::Payload {
        base,
        offset,
        bytes,
        into,
    }
}

fn dispatch() -> Vec<(&'static str, Rule, &'static str)> {
    let by_code = with_ipv4(vec![
        payload(PayloadBase::Network, 16, 4, r(0)),
        meta(MetaKey::Protocol, r(1)),
        payload(PayloadBase::Transport, 2, 2, r(2)),
        lookup("codes", r(0), Destination::Register(r(0))),
        Expression::SetMark { from: r(0) },
        meta(MetaKey::Mark, r(0)),
        mask(r(0), [255, 0, 0, 0]),
        lookup("verdicts", r(0), Destination::Verdict),
    ]);
    let balance = with_ipv4(vec![
        meta(MetaKey::Mark, r(4)),
        Expression::Random {
            modulus: 3,
            into: r(5),
        },
        lookup("endpoints", r(4), Destination::Register(r(6))),
        Expression::Dnat {
            is_ipv6: false,
            address: r(6),
            port: Some(r(7)),
        },
    ]);
    let in_turn = with_ipv4(vec![
        meta(MetaKey::Mark, r(4)),
        Expression::Increment {
            modulus: 3,
            into: r(5),
        },
        lookup("endpoints", r(4), Destination::Register(r(6))),
        Expression::Dnat {
            is_ipv6: false,
            address: r(6),
            port: Some(r(7)),
        },
    ]);
    let hashed = with_ipv4(vec![
        meta(MetaKey::Mark, r(4)),
        payload(PayloadBase::Network, 12, 4, r(5)),
        payload(PayloadBase::Transport, 0, 2, r(6)),
        Expression::Hash {
            from: r(5),
            bytes: 8,
            modulus: 1021,
            seed: 7,
            into: r(5),
        },
        lookup("endpoints", r(4), Destination::Register(r(6))),
        Expression::Dnat {
            is_ipv6: false,
            address: r(6),
            port: Some(r(7)),
        },
    ]);
    vec![
        (
            "pre",
            in_turn,
            "dnat ip to meta mark . numgen inc mod 3 map @endpoints",
        ),
        (
            "pre",
            hashed,
            "dnat ip to meta mark . jhash ip saddr . th sport mod 1021 seed 0x7 map @endpoints",
        ),
        (
            "pre",
            by_code,
            "meta mark set ip daddr . meta l4proto . th dport map @codes \
             meta mark & 0x000000ff vmap @verdicts comment \"why\"",
        ),
        (
            "pre",
            balance,
            "dnat ip to meta mark . numgen random mod 3 map @endpoints",
        ),
    ]
}

fn refusals() -> Vec<(&'static str, Rule, &'static str)> {
    let other_sources = rule(vec![
        Expression::FibType {
            address: FibAddress::Destination,
            into: r(0),
        },
        compare(r(0), Comparison::NotEqual, &2u32.to_ne_bytes()),
        Expression::Reject(Rejection::PortUnreachable),
    ]);
    let tcp = rule(vec![
        meta(MetaKey::Protocol, r(0)),
        compare(r(0), Comparison::Equal, &[6]),
        Expression::Reject(Rejection::TcpReset),
    ]);
    let spoofed = rule(vec![
        meta(MetaKey::InputGroup, r(0)),
        compare(r(0), Comparison::Equal, &7u32.to_ne_bytes()),
        Expression::FibInput {
            address: FibAddress::Source,
            into: r(0),
        },
        compare(r(0), Comparison::Equal, &0u32.to_ne_bytes()),
        Expression::Verdict(Verdict::Drop),
    ]);
    vec![
        (
            "pre",
            spoofed,
            "iifgroup 7 fib saddr . iif oif 0 drop comment \"why\"",
        ),
        (
            "pre",
            other_sources,
            "fib daddr type != local reject comment \"why\"",
        ),
        (
            "pre",
            tcp,
            "meta l4proto tcp reject with tcp reset comment \"why\"",
        ),
    ]
}

/// Among others EPT-18: masquerading with random ports.
fn effects() -> Vec<(&'static str, Rule, &'static str)> {
    let keep = with_ipv4(vec![
        payload(PayloadBase::Network, 12, 4, r(0)),
        meta(MetaKey::Mark, r(1)),
        Expression::Dynset {
            set: "kept".to_owned(),
            operation: DynsetOperation::Update,
            key: r(0),
            data: r(1),
            timeout_milliseconds: 60_000,
        },
        lookup("ranges", r(0), Destination::NotFound),
        Expression::Verdict(Verdict::Drop),
    ]);
    let masquerade = rule(vec![
        ct(CtKey::Status, r(0)),
        mask(r(0), 32u32.to_ne_bytes()),
        compare(r(0), Comparison::NotEqual, &[0; 4]),
        Expression::Masquerade,
    ]);
    let source = with_ipv4(vec![
        ct(CtKey::Direction, r(0)),
        compare(r(0), Comparison::Equal, &[0]),
        payload(PayloadBase::Network, 12, 4, r(0)),
        lookup("sources", r(0), Destination::Register(r(0))),
        Expression::Snat {
            is_ipv6: false,
            address: r(0),
        },
    ]);
    let jump = with_ipv4(vec![
        ct(CtKey::OriginalIpv4, r(0)),
        lookup("ranges", r(0), Destination::Found),
        ct(CtKey::OriginalPort, r(4)),
        lookup("ports", r(4), Destination::Found),
        Expression::Verdict(Verdict::Jump("end".to_owned())),
    ]);
    vec![
        (
            "pre",
            keep,
            "update @kept { ip saddr timeout 1m : meta mark } ip saddr != @ranges drop comment \"why\"",
        ),
        (
            "post",
            masquerade,
            "ct status dnat masquerade fully-random comment \"why\"",
        ),
        (
            "post",
            source,
            "ct direction original snat ip to ip saddr map @sources",
        ),
        (
            "post",
            jump,
            "ct original ip daddr @ranges ct original proto-dst @ports jump end comment \"why\"",
        ),
    ]
}

fn states() -> Vec<(&'static str, Rule, &'static str)> {
    let states = CtState::New as u32 | CtState::Invalid as u32;
    let strays = rule(vec![
        ct(CtKey::State, r(0)),
        mask(r(0), states.to_ne_bytes()),
        compare(r(0), Comparison::NotEqual, &[0; 4]),
        Expression::Load {
            value: 7u32.to_ne_bytes().to_vec(),
            into: r(0),
        },
        Expression::SetMark { from: r(0) },
    ]);
    vec![(
        "pre",
        strays,
        "ct state invalid,new meta mark set 0x00000007 comment \"why\"",
    )]
}

/// Returns an IPv4-only table, for expressions that `inet` lacks: packets to an address are duplicated to a host on
/// `lo`.
pub(super) fn ipv4_batch() -> Batch {
    let mut batch = Batch::of_family(TableFamily::Ipv4, TABLE);
    batch.table(Change::Add, &table(), 1);
    let mut machines = set("machines", &[Field::Ipv4], SetValue::Fields(vec![Field::Ipv4]));
    machines.dynamic_size = Some(16);
    batch.set(Change::Add, &machines, 2);
    let base = BaseChain {
        kind: ChainKind::Filter,
        hook: Hook::Prerouting,
        priority: -150,
    };
    batch.chain(Change::Add, &chain("pre", Some(base)), 3);
    let mut known = set("known", &[Field::Ethernet], SetValue::None);
    known.dynamic_size = Some(16);
    batch.set(Change::Add, &known, 2);
    batch.rule("pre", &from_known(), 4);
    batch.rule("pre", &send_on(), 4);
    let element = Element {
        timeout_milliseconds: Some(3_600_000),
        expiration_milliseconds: Some(1_800_000),
        ..Element::pair(&[192, 0, 2, 1], ElementData::Value(&[192, 0, 2, 2]))
    };
    batch.elements(Change::Add, "machines", 5).push(&element);
    batch
}

fn from_known() -> Rule {
    rule(vec![
        payload(PayloadBase::Link, 6, 6, r(0)),
        lookup("known", r(0), Destination::Found),
        Expression::Verdict(Verdict::Return),
    ])
}

pub(super) fn send_on() -> Rule {
    rule(vec![
        payload(PayloadBase::Network, 16, 4, r(0)),
        lookup("machines", r(0), Destination::Register(r(0))),
        Expression::Load {
            value: 1u32.to_ne_bytes().to_vec(),
            into: r(4),
        },
        Expression::Dup {
            address: r(0),
            link: r(4),
        },
        Expression::Verdict(Verdict::Drop),
    ])
}

pub(super) fn elements() -> Vec<(&'static str, Vec<Element<'static>>)> {
    let end = |key| Element {
        is_interval_end: true,
        ..Element::key(key)
    };
    vec![
        (
            "codes",
            vec![Element {
                comment: "default/web:http",
                ..Element::pair(
                    &[10, 96, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0],
                    ElementData::Value(&[5, 0, 0, 0]),
                )
            }],
        ),
        (
            "verdicts",
            vec![
                Element::pair(&[1, 0, 0, 0], ElementData::Verdict(Verdict::Goto("end"))),
                Element::pair(&[2, 0, 0, 0], ElementData::Verdict(Verdict::Drop)),
                Element::pair(&[3, 0, 0, 0], ElementData::Verdict(Verdict::Return)),
            ],
        ),
        ("ranges", vec![Element::key(&[10, 0, 0, 0]), end(&[11, 0, 0, 0])]),
        (
            "pairs",
            vec![Element {
                key_end: Some(&[0, 80, 0, 0, 10, 255, 255, 255]),
                ..Element::key(&[0, 80, 0, 0, 10, 0, 0, 0])
            }],
        ),
    ]
}

pub(super) fn golden_batch() -> Batch {
    let mut batch = Batch::new(TABLE, None);
    batch.table(Change::Add, &table(), 1);
    for set in sets() {
        batch.set(Change::Add, &set, 2);
    }
    batch.chain(Change::Add, &chain("end", None), 3);
    batch.chain(Change::Add, &chain("pre", nat(Hook::Prerouting, -100)), 3);
    batch.chain(Change::Add, &chain("post", nat(Hook::Postrouting, 100)), 3);
    for (chain, rule, _) in rules() {
        batch.rule(chain, &rule, 4);
    }
    for (set, elements) in elements() {
        let mut list = batch.elements(Change::Add, set, 5);
        for element in &elements {
            list.push(element);
        }
    }
    batch
}
