use std::process::Command;

use proptest::prelude::*;

use super::*;
use crate::message::{Attribute, Writer, attributes, messages};

const TABLE: &str = "golden";
/// Its number in `linux/capability.h`.
const CAP_NET_ADMIN: libc::c_ulong = 12;

fn table() -> Table {
    Table {
        name: TABLE.to_owned(),
        comment: "a table".to_owned(),
    }
}

fn chain(name: &str, base: Option<BaseChain>) -> Chain {
    Chain {
        name: name.to_owned(),
        base,
        comment: format!("chain {name}"),
    }
}

fn nat(hook: Hook, priority: i32) -> Option<BaseChain> {
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

fn sets() -> Vec<Set> {
    let frontend = [Field::Ipv4, Field::Protocol, Field::Port];
    vec![
        set("codes", &frontend, SetValue::Fields(vec![Field::Mark])),
        set(
            "endpoints",
            &[Field::Mark, Field::Mark],
            SetValue::Fields(vec![Field::Ipv4, Field::Port]),
        ),
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

/// A rule of each expression that there is, such that the kernel takes it.
fn rules() -> Vec<(&'static str, Rule, &'static str)> {
    use Expression::*;
    let r = Register::at;
    let rule = |expressions: Vec<Expression>| Rule {
        expressions,
        comment: "why".to_owned(),
    };
    let lookup = |set: &str, key, into| Lookup {
        set: set.to_owned(),
        key,
        into,
    };
    let payload = |base, offset, bytes, into| Payload {
        base,
        offset,
        bytes,
        into,
    };
    let ipv4 = [
        Meta {
            key: MetaKey::Family,
            into: r(0),
        },
        Compare {
            register: r(0),
            comparison: Comparison::Equal,
            value: vec![libc::NFPROTO_IPV4 as u8],
        },
    ];
    let with_ipv4 = |rest: Vec<Expression>| rule(ipv4.iter().cloned().chain(rest).collect());
    vec![
        (
            "pre",
            with_ipv4(vec![
                payload(PayloadBase::Network, 16, 4, r(0)),
                Meta {
                    key: MetaKey::Protocol,
                    into: r(1),
                },
                payload(PayloadBase::Transport, 2, 2, r(2)),
                lookup("codes", r(0), Destination::Register(r(0))),
                SetMark { from: r(0) },
                Meta {
                    key: MetaKey::Mark,
                    into: r(0),
                },
                Mask {
                    from: r(0),
                    into: r(0),
                    mask: vec![255, 0, 0, 0],
                },
                lookup("verdicts", r(0), Destination::Verdict),
            ]),
            "meta mark set ip daddr . meta l4proto . th dport map @codes meta mark & 0x000000ff vmap @verdicts comment \"why\"",
        ),
        (
            "pre",
            with_ipv4(vec![
                Meta {
                    key: MetaKey::Mark,
                    into: r(4),
                },
                Random {
                    modulus: 3,
                    into: r(5),
                },
                lookup("endpoints", r(4), Destination::Register(r(6))),
                Dnat {
                    is_ipv6: false,
                    address: r(6),
                    port: r(7),
                },
            ]),
            "dnat ip to meta mark . numgen random mod 3 map @endpoints",
        ),
        (
            "pre",
            rule(vec![
                FibType {
                    address: FibAddress::Destination,
                    into: r(0),
                },
                Compare {
                    register: r(0),
                    comparison: Comparison::NotEqual,
                    value: 2u32.to_ne_bytes().to_vec(),
                },
                Reject(Rejection::PortUnreachable),
            ]),
            "fib daddr type != local reject comment \"why\"",
        ),
        (
            "pre",
            rule(vec![
                Meta {
                    key: MetaKey::Protocol,
                    into: r(0),
                },
                Compare {
                    register: r(0),
                    comparison: Comparison::Equal,
                    value: vec![6],
                },
                Reject(Rejection::TcpReset),
            ]),
            "meta l4proto tcp reject with tcp reset comment \"why\"",
        ),
        (
            "pre",
            with_ipv4(vec![
                payload(PayloadBase::Network, 12, 4, r(0)),
                Meta {
                    key: MetaKey::Mark,
                    into: r(1),
                },
                Dynset {
                    set: "kept".to_owned(),
                    operation: DynsetOperation::Update,
                    key: r(0),
                    data: r(1),
                    timeout_ms: 60_000,
                },
                lookup("ranges", r(0), Destination::NotFound),
                Verdict(super::Verdict::Drop),
            ]),
            "update @kept { ip saddr timeout 1m : meta mark } ip saddr != @ranges drop comment \"why\"",
        ),
        (
            "post",
            rule(vec![
                Ct {
                    key: CtKey::Status,
                    into: r(0),
                },
                Mask {
                    from: r(0),
                    into: r(0),
                    mask: 32u32.to_ne_bytes().to_vec(),
                },
                Compare {
                    register: r(0),
                    comparison: Comparison::NotEqual,
                    value: vec![0; 4],
                },
                Masquerade,
            ]),
            "ct status dnat masquerade fully-random comment \"why\"",
        ),
        (
            "post",
            with_ipv4(vec![
                Ct {
                    key: CtKey::OriginalIpv4,
                    into: r(0),
                },
                lookup("ranges", r(0), Destination::Found),
                Ct {
                    key: CtKey::OriginalPort,
                    into: r(4),
                },
                lookup("ports", r(4), Destination::Found),
                Verdict(super::Verdict::Jump("end".to_owned())),
            ]),
            "ct original ip daddr @ranges ct original proto-dst @ports jump end comment \"why\"",
        ),
    ]
}

fn elements() -> Vec<(&'static str, Vec<Element<'static>>)> {
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

fn golden_batch() -> Batch {
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

#[test]
fn the_kernel_gives_back_what_it_was_given() {
    testbed::in_namespace(|| {
        let mut nftables = Nftables::open().unwrap();
        nftables.commit(golden_batch()).unwrap();
        assert_eq!(nftables.table(TABLE).unwrap(), Some(table()));
        let by_name = |mut sets: Vec<Set>| {
            sets.sort_by(|a, b| a.name.cmp(&b.name));
            sets
        };
        assert_eq!(by_name(nftables.sets(TABLE).unwrap()), by_name(sets()));
        let chains = nftables.chains(TABLE).unwrap();
        assert!(
            chains.contains(&chain("pre", nat(Hook::Prerouting, -100))),
            "{chains:?}"
        );
        assert!(chains.contains(&chain("end", None)), "{chains:?}");
        let found = nftables.rules(TABLE).unwrap();
        let wanted: Vec<(String, Rule)> = rules()
            .into_iter()
            .map(|(chain, rule, _)| (chain.to_owned(), rule))
            .collect();
        assert_eq!(found.len(), wanted.len());
        for rule in wanted {
            assert!(found.contains(&rule), "{rule:#?}\nis none of {found:#?}");
        }
        for (set, wanted) in elements() {
            let matching = nftables
                .elements(TABLE, set, |element| wanted.contains(&element))
                .unwrap();
            assert_eq!(matching, vec![true; wanted.len()], "{set}");
        }
    });
}

#[test]
fn the_nft_program_reads_what_is_meant() {
    testbed::in_namespace(|| {
        Nftables::open().unwrap().commit(golden_batch()).unwrap();
        let listed = match Command::new("nft")
            .args(["list", "table", "inet", TABLE])
            .output()
        {
            Ok(output) => output,
            Err(error) => {
                println!("skipped: the_nft_program_reads_what_is_meant: no nft program: {error}");
                return;
            }
        };
        let text = String::from_utf8_lossy(&listed.stdout);
        assert!(
            listed.status.success(),
            "{}",
            String::from_utf8_lossy(&listed.stderr)
        );
        for (_, _, wanted) in rules() {
            assert!(text.contains(wanted), "{wanted}\nis not in\n{text}");
        }
        for wanted in [
            "10.96.0.1 . tcp . 80 comment \"default/web:http\" : 0x00000005",
            "elements = { 10.0.0.0/8 }",
            "80 . 10.0.0.0/8",
            "0x00000001 : goto end",
            "comment \"set codes\"",
            "comment \"chain end\"",
        ] {
            assert!(text.contains(wanted), "{wanted}\nis not in\n{text}");
        }
    });
}

#[test]
fn a_refusal_names_the_message_and_nothing_is_done() {
    testbed::in_namespace(|| {
        let mut nftables = Nftables::open().unwrap();
        let mut batch = golden_batch();
        batch
            .elements(Change::Delete, "six", 77)
            .push(&Element::key(&[0; 16]));
        batch
            .elements(Change::Add, "nowhere", 78)
            .push(&Element::key(&[0; 4]));
        let CommitError::Refused { refusals } = nftables.commit(batch).unwrap_err() else {
            panic!("another error");
        };
        let told: Vec<_> = refusals
            .iter()
            .map(|refusal| (refusal.owner, refusal.operation.as_str(), refusal.errno))
            .collect();
        assert_eq!(
            told,
            [
                (Some(77), "delete elements of six", libc::ENOENT),
                (Some(78), "add elements to nowhere", libc::ENOENT),
            ]
        );
        assert_eq!(nftables.table(TABLE).unwrap(), None);
    });
}

#[test]
fn a_batch_for_a_former_generation_is_not_done() {
    testbed::in_namespace(|| {
        let mut nftables = Nftables::open().unwrap();
        let before = nftables.generation().unwrap();
        nftables.commit(golden_batch()).unwrap();
        let mut batch = Batch::new(TABLE, Some(before));
        batch.flush_chain("pre", 0);
        assert!(matches!(nftables.commit(batch), Err(CommitError::Changed)));
        let mut batch = Batch::new(TABLE, Some(nftables.generation().unwrap()));
        batch.flush_chain("pre", 0);
        nftables.commit(batch).unwrap();
    });
}

#[test]
fn many_elements_go_in_several_lists() {
    testbed::in_namespace(|| {
        let mut nftables = Nftables::open().unwrap();
        nftables.commit(golden_batch()).unwrap();
        let keys: Vec<[u8; 16]> = (0..5000u128).map(u128::to_be_bytes).collect();
        let mut batch = Batch::new(TABLE, None);
        let mut list = batch.elements(Change::Add, "six", 0);
        for key in &keys {
            list.push(&Element::key(key));
        }
        drop(list);
        nftables.commit(batch).unwrap();
        // A list misses elements or has some twice while the kernel is still enlarging the set's hash table.
        let is_complete = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            let mut found = nftables
                .elements(TABLE, "six", |element| element.key.to_vec())
                .unwrap();
            found.sort_unstable();
            found
                .iter()
                .map(Vec::as_slice)
                .eq(keys.iter().map(<[u8; 16]>::as_slice))
        });
        assert!(is_complete);
    });
}

#[test]
fn without_the_capability_it_says_so() {
    testbed::in_namespace(|| {
        // SAFETY: prctl takes no pointer here; this process is the test's own.
        let dropped = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, CAP_NET_ADMIN) };
        assert_eq!(dropped, 0);
        // Root that runs a program has what the bounding set leaves; so the program tries.
        let output = Command::new("/proc/self/exe")
            .args([
                "--exact",
                "nftables::tests::a_stranger_is_refused",
                "--ignored",
                "--nocapture",
            ])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            text.contains("1 passed"),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    });
}

/// Run by [`without_the_capability_it_says_so`] in a process that lacks it.
#[test]
#[ignore = "needs a process without CAP_NET_ADMIN"]
fn a_stranger_is_refused() {
    let mut nftables = Nftables::open().unwrap();
    assert!(matches!(
        nftables.commit(golden_batch()),
        Err(CommitError::NotPermitted)
    ));
    assert!(matches!(
        nftables.table(TABLE),
        Ok(None) | Err(ReadError::NotPermitted)
    ));
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        let count = attributes(&bytes).count();
        let set = Set::decode(attributes(&bytes));
        let element = Element::decode(attributes(&bytes));
        let rule = Rule::decode(attributes(&bytes));
        let known = usize::from(set.is_some()) + usize::from(element.is_some()) + usize::from(rule.is_some());
        prop_assert!(count > 0 || known == 0);
        let whole = Expression::decode(Attribute { kind: 1, value: &bytes });
        prop_assert!(!whole.name().contains('\0'));
    }

    #[test]
    fn damaged_rules_are_read_without_harm(at in 0usize..400, byte in any::<u8>(), index in 0usize..7) {
        let mut writer = Writer::default();
        writer.begin(0, 0, 1).fixed(&[0; 4]);
        rules()[index].1.encode(&mut writer, TABLE, "pre");
        let mut bytes = writer.finish().to_vec();
        let at = 16 + at % (bytes.len() - 16);
        bytes[at] = byte;
        for message in messages(&bytes) {
            if let Some((_, _, rule)) = Rule::decode(message.attributes(4)) {
                prop_assert!(rule.expressions.len() <= bytes.len());
            }
        }
    }
}
