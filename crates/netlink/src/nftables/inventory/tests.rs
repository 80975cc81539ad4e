use std::io::Write as _;
use std::process::{Command, Stdio};

use super::*;
use crate::message::{Writer, messages};

const RULESET: &str = "
    table inet example {
        chain entry {
            type nat hook prerouting priority dstnat; policy accept;
            counter
            counter
        }
        chain plain {
            counter
        }
    }
    table ip filter {
        chain FORWARD {
            type filter hook forward priority filter; policy drop;
        }
    }
    table arp asleep {
        flags dormant
        chain incoming {
            type filter hook input priority 0;
        }
    }
";

/// Writes a ruleset with the `nft` program. Returns false if the program is missing.
fn write_ruleset(text: &str) -> bool {
    let child = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        return false;
    };
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("a written ruleset");
    drop(input);
    assert!(child.wait().expect("an exit status").success());
    true
}

#[test]
fn tables_of_all_families_are_listed() {
    testbed::in_namespace(|| {
        if !write_ruleset(RULESET) {
            testbed::skip_inside("nft is not installed");
        }
        let mut nftables = Nftables::open().expect("a connection");
        let mut found = nftables.inventory(10).expect("an inventory");
        assert!(!found.is_truncated);
        found.tables.sort_by(|a, b| a.family.cmp(&b.family));
        let [arp, inet, ip] = found.tables.as_slice() else {
            panic!("three tables are listed: {found:?}");
        };
        assert_eq!((arp.family.as_str(), arp.is_dormant), ("arp", true));
        assert_eq!((inet.name.as_str(), inet.is_dormant), ("example", false));
        let entry = InventoryChain {
            name: "entry".to_owned(),
            kind: Some("nat".to_owned()),
            hook: Some("prerouting"),
            priority: Some(-100),
            accepts: Some(true),
            rules: 2,
        };
        let plain = InventoryChain {
            name: "plain".to_owned(),
            rules: 1,
            ..InventoryChain::default()
        };
        assert_eq!(inet.chains, [entry, plain]);
        assert_eq!(
            (ip.chains[0].hook, ip.chains[0].accepts, ip.chains[0].rules),
            (Some("forward"), Some(false), 0)
        );
        let found = nftables.inventory(1).expect("an inventory");
        let chains: usize = found.tables.iter().map(|table| table.chains.len()).sum();
        assert_eq!((found.is_truncated, chains), (true, 1));
    });
}

#[test]
fn truncated_messages_decode_without_panic() {
    let mut writer = Writer::default();
    writer.begin(0, 0, 1).fixed(&[1, 0, 0, 0]);
    writer
        .text(wire::CHAIN_TABLE, "filter")
        .text(wire::CHAIN_NAME, "FORWARD");
    let hook = writer.nest(wire::CHAIN_HOOK);
    writer
        .u32_be(wire::HOOK_NUMBER, 99)
        .u32_be(wire::HOOK_PRIORITY, 0)
        .end(hook);
    let bytes = writer.finish().to_vec();
    for length in 0..bytes.len() {
        let mut part = bytes.get(..length).unwrap_or_default().to_vec();
        if let Some(size) = part.get_mut(..4) {
            size.copy_from_slice(&(length as u32).to_ne_bytes());
        }
        for message in messages(&part) {
            decode_table(&message);
            decode_chain(&message);
            decode_rule(&message);
        }
    }
    let message = messages(&bytes).next().expect("a message");
    let (_, chain) = decode_chain(&message).expect("a chain");
    assert_eq!((chain.hook, chain.priority), (None, Some(0)));
}
