mod golden;

use std::process::Command;

use proptest::prelude::*;

use golden::{TABLE, chain, elements, golden_batch, ipv4_batch, nat, rules, send_on, sets, table};

use super::*;
use crate::message::{Attribute, Writer, attributes, messages};

/// Number of the capability in `linux/capability.h`.
const CAP_NET_ADMIN: libc::c_ulong = 12;

#[test]
fn kernel_returns_written_objects() {
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
        let expected: Vec<(String, Rule)> = rules()
            .into_iter()
            .map(|(chain, rule, _)| (chain.to_owned(), rule))
            .collect();
        assert_eq!(found.len(), expected.len());
        for rule in expected {
            assert!(found.contains(&rule), "{rule:#?}\nis none of {found:#?}");
        }
        for (set, expected) in elements() {
            let matching = nftables
                .elements(TABLE, set, |element| expected.contains(&element))
                .unwrap();
            assert_eq!(matching, vec![true; expected.len()], "{set}");
        }
    });
}

#[test]
fn nft_prints_expected_ruleset() {
    testbed::in_namespace(|| {
        Nftables::open().unwrap().commit(golden_batch()).unwrap();
        let listed = match Command::new("nft")
            .args(["list", "table", "inet", TABLE])
            .output()
        {
            Ok(output) => output,
            Err(error) => {
                println!("skipped: nft_prints_expected_ruleset: no nft program: {error}");
                return;
            }
        };
        let text = String::from_utf8_lossy(&listed.stdout);
        assert!(
            listed.status.success(),
            "{}",
            String::from_utf8_lossy(&listed.stderr)
        );
        for (_, _, expected) in rules() {
            assert!(text.contains(expected), "{expected}\nis not in\n{text}");
        }
        for expected in [
            "10.96.0.1 . tcp . 80 comment \"default/web:http\" : 0x00000005",
            "elements = { 10.0.0.0/8 }",
            "80 . 10.0.0.0/8",
            "0x00000001 : goto end",
            "comment \"set codes\"",
            "comment \"chain end\"",
        ] {
            assert!(text.contains(expected), "{expected}\nis not in\n{text}");
        }
    });
}

#[test]
fn dup_forwards_packets_in_single_family_table() {
    let mut writer = Writer::default();
    writer.begin(0, 0, 1).fixed(&[0; 4]);
    send_on().encode(&mut writer, TABLE, "pre");
    let read = messages(writer.finish()).find_map(|message| Rule::decode(message.attributes(4)));
    assert_eq!(read, Some((TABLE.to_owned(), "pre".to_owned(), send_on())));
    testbed::in_namespace(|| {
        Nftables::open().unwrap().commit(ipv4_batch()).unwrap();
        let listed = match Command::new("nft").args(["list", "table", "ip", TABLE]).output() {
            Ok(output) => output,
            Err(error) => {
                println!("skipped: dup_forwards_packets_in_single_family_table: no nft program: {error}");
                return;
            }
        };
        let text = String::from_utf8_lossy(&listed.stdout);
        for expected in [
            "dup to ip daddr map @machines device \"lo\" drop comment \"why\"",
            "192.0.2.1 timeout 1h expires 29m",
            ": 192.0.2.2",
            "type ether_addr",
            "@known return",
        ] {
            assert!(text.contains(expected), "{expected}\nis not in\n{text}");
        }
    });
}

#[test]
fn refusal_names_message_and_commits_nothing() {
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
        let observed: Vec<_> = refusals
            .iter()
            .map(|refusal| (refusal.owner, refusal.operation.as_str(), refusal.errno))
            .collect();
        assert_eq!(
            observed,
            [
                (Some(77), "delete elements of six", libc::ENOENT),
                (Some(78), "add elements to nowhere", libc::ENOENT),
            ]
        );
        assert_eq!(nftables.table(TABLE).unwrap(), None);
    });
}

#[test]
fn batch_for_former_generation_is_rejected() {
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
fn many_elements_split_into_several_lists() {
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
        // A dump omits or duplicates elements while the kernel resizes the hash table of the set.
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
fn missing_capability_is_reported() {
    testbed::in_namespace(|| {
        // SAFETY: prctl takes no pointer here; the process belongs to this test.
        let dropped = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, CAP_NET_ADMIN) };
        assert_eq!(dropped, 0);
        // A program run by root keeps only the capabilities of the bounding set, so a program makes the attempt.
        let output = Command::new("/proc/self/exe")
            .args([
                "--exact",
                "nftables::tests::foreign_user_is_refused",
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

/// Runs in a process without the capability, started by [`missing_capability_is_reported`].
#[test]
#[ignore = "needs a process without CAP_NET_ADMIN"]
fn foreign_user_is_refused() {
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
    fn arbitrary_bytes_decode_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
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
    fn damaged_rules_decode_without_panic(at in 0usize..400, byte in any::<u8>(), index in 0usize..10) {
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
