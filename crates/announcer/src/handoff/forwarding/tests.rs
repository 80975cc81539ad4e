use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::Command;

use netlink::conntrack::Conntrack;
use netlink::tcp;
use testbed::{Cluster, Topology};

use super::*;
use crate::handoff::next_hop::NextHop;

const NOW: Time = Time::from_secs(1_000);

fn hop(link: u32, number: u8, address: IpAddr) -> (IpAddr, NextHop) {
    let gateway: IpAddr = if address.is_ipv4() {
        [192, 0, 2, number].into()
    } else {
        [0xfe80, 0, 0, 0, 0, 0, 0, u16::from(number)].into()
    };
    let hop = NextHop {
        link: LinkIndex(link),
        gateway,
        hardware: [2, 0, 0, 0, 0, number],
    };
    (address, hop)
}

fn ipv4(number: u8) -> IpAddr {
    [192, 0, 2, number].into()
}

fn ipv6(number: u16) -> IpAddr {
    [0x2001, 0xdb8, 0, 0, 0, 0, 0, number].into()
}

/// State with forwarded addresses only.
fn forwarding_of<const N: usize>(forwarded: [(IpAddr, NextHop); N]) -> ForwardingState {
    ForwardingState {
        forwarded: forwarded.into(),
        ..ForwardingState::default()
    }
}

/// Lists the tables with the nft program, without remaining timeouts; `None` if there is no such program.
fn listed() -> Option<String> {
    let mut all = String::new();
    for family in ["ip", "ip6"] {
        let output = Command::new("nft")
            .args(["-s", "list", "tables", family])
            .output()
            .ok()?;
        let tables = String::from_utf8_lossy(&output.stdout).into_owned();
        if tables.contains(rules::TABLE) {
            let output = Command::new("nft")
                .args(["-s", "list", "table", family, rules::TABLE])
                .output()
                .ok()?;
            all.push_str(&String::from_utf8_lossy(&output.stdout));
        }
    }
    Some(all)
}

/// Starts the tables, or skips the test where kernel or nft program are missing.
fn start(test: &str) -> Option<ConnectionForwarding> {
    let forwarding = ConnectionForwarding::start(NOW);
    if let Some((family, why)) = forwarding.unsupported().next() {
        println!("skipped: {test}: no kernel support for {family}: {why}");
        return None;
    }
    if listed().is_none() {
        println!("skipped: {test}: no nft program");
        return None;
    }
    Some(forwarding)
}

#[test]
fn kernel_holds_the_last_state_after_any_sequence_of_updates() {
    testbed::in_namespace(|| {
        let Some(mut forwarding) = start("kernel_holds_the_last_state_after_any_sequence_of_updates") else {
            return;
        };
        let empty = listed().unwrap();
        for expected in ["hook prerouting priority mangle", "ct state new", "map link1"] {
            assert!(empty.contains(expected), "{expected} is not in {empty}");
        }
        let last = ForwardingState {
            pending: [ipv4(202), ipv6(9)].into(),
            held: [ipv4(203), ipv6(10)].into(),
            ..forwarding_of([hop(1, 2, ipv4(200)), hop(1, 3, ipv4(201)), hop(1, 2, ipv6(7))])
        };
        forwarding.apply(NOW, &last);
        let written_at_once = listed().unwrap();
        for expected in [
            "192.0.2.200 timeout 1m : 192.0.2.2",
            "192.0.2.201 timeout 1m : 192.0.2.3",
            "2001:db8::7 timeout 1m : fe80::2",
            "02:00:00:00:00:03:00:00 timeout 1m",
            "192.0.2.202 timeout 3s",
            "2001:db8::9 timeout 3s",
            "ip daddr @pending drop",
            "ip6 daddr @pending drop",
            "dup to ip daddr map @link1 device \"lo\" drop",
            "dup to ip6 daddr map @link1 device \"lo\" drop",
        ] {
            assert!(
                written_at_once.contains(expected),
                "{expected} is not in {written_at_once}"
            );
        }
        // Incremental updates through other states.
        for other in [
            ForwardingState::default(),
            forwarding_of([hop(1, 4, ipv4(200)), hop(1, 2, ipv4(9))]),
            forwarding_of([hop(1, 3, ipv6(7)), hop(1, 3, ipv6(8)), hop(1, 2, ipv4(201))]),
            ForwardingState {
                pending: [ipv4(200), ipv4(202)].into(),
                held: [ipv6(10), ipv6(11)].into(),
                ..ForwardingState::default()
            },
        ] {
            forwarding.apply(NOW, &other);
            forwarding.apply(NOW, &last);
            assert_eq!(listed().unwrap(), written_at_once);
        }
        // A link without rules, and a table that was deleted by others.
        forwarding.apply(NOW, &forwarding_of([hop(7, 2, ipv4(200))]));
        assert!(listed().unwrap().contains("map link7"));
        Nftables::open()
            .unwrap()
            .delete_table(rules::Family::Ipv4.table_family(), rules::TABLE)
            .unwrap();
        forwarding.apply(NOW, &last);
        assert_eq!(listed().unwrap(), written_at_once);
        forwarding.apply(NOW, &ForwardingState::default());
        assert_eq!(listed().unwrap(), empty);
        forwarding.delete();
        assert_eq!(listed().unwrap(), "");
    });
}

#[test]
fn refreshes_its_table_and_replaces_one_of_a_killed_process() {
    testbed::in_namespace(|| {
        let Some(mut forwarding) = start("refreshes_its_table_and_replaces_one_of_a_killed_process") else {
            return;
        };
        let held = BTreeSet::from([ipv4(200), ipv6(7)]);
        let forwarded = ForwardingState {
            held: held.clone(),
            ..forwarding_of([hop(1, 2, ipv4(200))])
        };
        forwarding.apply(NOW, &forwarded);
        let before = listed().unwrap();
        assert!(
            Nftables::open()
                .unwrap()
                .delete_table(rules::Family::Ipv4.table_family(), rules::TABLE)
                .unwrap()
        );
        forwarding.apply(NOW + REFRESH_PERIOD / 2, &forwarded);
        assert_ne!(listed().unwrap(), before, "no refresh is due");
        forwarding.apply(NOW + REFRESH_PERIOD, &forwarded);
        assert_eq!(listed().unwrap(), before);
        // Killed and restarted.
        assert_eq!(forwarding.recovered(), &BTreeSet::new());
        drop(forwarding);
        assert_eq!(listed().unwrap(), before);
        for killed in 1..=2 {
            // Owned addresses stay recorded if the process is killed again at once.
            let forwarding = ConnectionForwarding::start(NOW);
            assert_eq!(forwarding.recovered(), &held, "killed {killed} times");
        }
        let mut forwarding = ConnectionForwarding::start(NOW);
        let kept = ForwardingState {
            held: held.clone(),
            ..ForwardingState::default()
        };
        let only_held = listed().unwrap();
        forwarding.apply(NOW, &kept);
        assert_eq!(
            listed().unwrap(),
            only_held,
            "forwarding of the killed process ended"
        );
        assert_ne!(only_held, before);
        // Shut down and restarted.
        forwarding.delete();
        assert_eq!(ConnectionForwarding::start(NOW).recovered(), &BTreeSet::new());
    });
}

/// Time after which data counts as not delivered: more than one TCP retransmission.
const NOT_DELIVERED: Duration = Duration::from_millis(500);

/// A connection without a conntrack entry is neither picked up nor reset.
#[test]
fn drops_packets_to_pending_addresses_until_they_are_settled() {
    testbed::in_namespace(|| {
        let cluster = Cluster::start(Topology::with_nodes(1).unwrap()).unwrap();
        let (node, outside) = (cluster.member("node-1").unwrap(), cluster.outside().unwrap());
        let address = IpAddr::from(node.plan.address.ipv4);
        let test = "drops_packets_to_pending_addresses_until_they_are_settled";
        let Some(mut forwarding) = node.enter(|| start(test)).unwrap() else {
            return;
        };
        let listener = node.enter(|| TcpListener::bind((address, 0))).unwrap().unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = outside
            .enter(|| TcpStream::connect((address, port)))
            .unwrap()
            .unwrap();
        let (mut served, _) = listener.accept().unwrap();
        let pending = ForwardingState {
            pending: [address].into(),
            ..ForwardingState::default()
        };
        forwarding.apply(NOW, &pending);
        let mut conntrack = node.enter(Conntrack::open).unwrap().unwrap();
        let mut flows = || {
            let of_client = |flow: &netlink::conntrack::Flow| flow.original.destination.port() == port;
            conntrack
                .flows_to(usize::MAX, address, tcp::PROTOCOL, of_client)
                .unwrap()
        };
        let before = flows();
        assert_eq!(before.len(), 1);
        let mut other = node.enter(Conntrack::open).unwrap().unwrap();
        assert!(other.delete(&before[0]).unwrap());

        client.write_all(b"still here").unwrap();
        served.set_read_timeout(Some(NOT_DELIVERED)).unwrap();
        let mut received = [0; 10];
        assert_eq!(
            served.read(&mut received).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        assert_eq!(flows(), []);

        forwarding.apply(NOW, &ForwardingState::default());
        served.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        served.read_exact(&mut received).unwrap();
        assert_eq!((&received, flows().len()), (b"still here", 1));
    });
}
