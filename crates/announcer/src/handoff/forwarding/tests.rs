use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::Command;

use netlink::conntrack::Conntrack;
use netlink::tcp;
use testbed::{Cluster, Topology};

use super::*;
use crate::handoff::next_hop::Way;

const NOW: Time = Time::from_secs(1_000);

fn way(link: u32, number: u8, address: IpAddr) -> (IpAddr, Way) {
    let gateway: IpAddr = match address.is_ipv4() {
        true => [192, 0, 2, number].into(),
        false => [0xfe80, 0, 0, 0, 0, 0, 0, u16::from(number)].into(),
    };
    let way = Way {
        link: LinkIndex(link),
        gateway,
        hardware: [2, 0, 0, 0, 0, number],
    };
    (address, way)
}

fn ipv4(number: u8) -> IpAddr {
    [192, 0, 2, number].into()
}

fn ipv6(number: u16) -> IpAddr {
    [0x2001, 0xdb8, 0, 0, 0, 0, 0, number].into()
}

/// What is led, and nothing else.
fn leading<const N: usize>(led: [(IpAddr, Way); N]) -> Wanted {
    Wanted {
        led: led.into(),
        ..Wanted::default()
    }
}

/// What the kernel has, in the words of the nft program and without the time that is left; `None` if there is no such
/// program.
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

/// A start, if there is what it takes.
fn start(test: &str) -> Option<Leads> {
    let leads = Leads::start(NOW);
    if let Some((family, why)) = leads.refusals().next() {
        println!("skipped: {test}: the kernel does not lead {family}: {why}");
        return None;
    }
    if listed().is_none() {
        println!("skipped: {test}: no nft program");
        return None;
    }
    Some(leads)
}

#[test]
fn the_kernel_leads_what_it_was_last_told_however_it_came_to_that() {
    testbed::in_namespace(|| {
        let Some(mut leads) = start("the_kernel_leads_what_it_was_last_told_however_it_came_to_that") else {
            return;
        };
        let empty = listed().unwrap();
        for wanted in ["hook prerouting priority mangle", "ct state new", "map link1"] {
            assert!(empty.contains(wanted), "{wanted} is not in {empty}");
        }
        let last = Wanted {
            unsettled: [ipv4(202), ipv6(9)].into(),
            held: [ipv4(203), ipv6(10)].into(),
            ..leading([way(1, 2, ipv4(200)), way(1, 3, ipv4(201)), way(1, 2, ipv6(7))])
        };
        leads.lead(NOW, &last);
        let told_at_once = listed().unwrap();
        for wanted in [
            "192.0.2.200 timeout 1m : 192.0.2.2",
            "192.0.2.201 timeout 1m : 192.0.2.3",
            "2001:db8::7 timeout 1m : fe80::2",
            "02:00:00:00:00:03:00:00 timeout 1m",
            "192.0.2.202 timeout 3s",
            "2001:db8::9 timeout 3s",
            "ip daddr @unsettled drop",
            "ip6 daddr @unsettled drop",
            "dup to ip daddr map @link1 device \"lo\" drop",
            "dup to ip6 daddr map @link1 device \"lo\" drop",
        ] {
            assert!(told_at_once.contains(wanted), "{wanted} is not in {told_at_once}");
        }
        // By way of other states, by a change each.
        for other in [
            Wanted::default(),
            leading([way(1, 4, ipv4(200)), way(1, 2, ipv4(9))]),
            leading([way(1, 3, ipv6(7)), way(1, 3, ipv6(8)), way(1, 2, ipv4(201))]),
            Wanted {
                unsettled: [ipv4(200), ipv4(202)].into(),
                held: [ipv6(10), ipv6(11)].into(),
                ..Wanted::default()
            },
        ] {
            leads.lead(NOW, &other);
            leads.lead(NOW, &last);
            assert_eq!(listed().unwrap(), told_at_once);
        }
        // By a link that there was no rule for, and after somebody took the table away.
        leads.lead(NOW, &leading([way(7, 2, ipv4(200))]));
        assert!(listed().unwrap().contains("map link7"));
        Nftables::open()
            .unwrap()
            .delete_table(rules::Family::Ipv4.table_family(), rules::TABLE)
            .unwrap();
        leads.lead(NOW, &last);
        assert_eq!(listed().unwrap(), told_at_once);
        leads.lead(NOW, &Wanted::default());
        assert_eq!(listed().unwrap(), empty);
        leads.end();
        assert_eq!(listed().unwrap(), "");
    });
}

#[test]
fn a_table_that_is_tended_is_there_and_one_of_before_is_not() {
    testbed::in_namespace(|| {
        let Some(mut leads) = start("a_table_that_is_tended_is_there_and_one_of_before_is_not") else {
            return;
        };
        let held = BTreeSet::from([ipv4(200), ipv6(7)]);
        let led = Wanted {
            held: held.clone(),
            ..leading([way(1, 2, ipv4(200))])
        };
        leads.lead(NOW, &led);
        let before = listed().unwrap();
        assert!(
            Nftables::open()
                .unwrap()
                .delete_table(rules::Family::Ipv4.table_family(), rules::TABLE)
                .unwrap()
        );
        leads.lead(NOW + TEND_PERIOD / 2, &led);
        assert_ne!(listed().unwrap(), before, "nothing was to be done");
        leads.lead(NOW + TEND_PERIOD, &led);
        assert_eq!(listed().unwrap(), before);
        // Killed, and started anew.
        assert_eq!(leads.left(), &BTreeSet::new());
        drop(leads);
        assert_eq!(listed().unwrap(), before);
        for killed in 1..=2 {
            // That these were answered for stays known, should this process be killed before it has said anything.
            let leads = Leads::start(NOW);
            assert_eq!(leads.left(), &held, "killed {killed} times");
        }
        let mut leads = Leads::start(NOW);
        let kept = Wanted {
            held: held.clone(),
            ..Wanted::default()
        };
        let only_held = listed().unwrap();
        leads.lead(NOW, &kept);
        assert_eq!(listed().unwrap(), only_held, "nothing is led that was before");
        assert_ne!(only_held, before);
        // Asked to end, and started anew.
        leads.end();
        assert_eq!(Leads::start(NOW).left(), &BTreeSet::new());
    });
}

/// How long something has to be missing, to be taken for missing: more than it takes TCP to send a packet once more.
const MISSING: Duration = Duration::from_millis(500);

/// A connection that the node does not know any more is neither taken for a new one nor reset.
#[test]
fn what_is_for_an_unsettled_address_waits_until_it_is_settled() {
    testbed::in_namespace(|| {
        let cluster = Cluster::start(Topology::with_nodes(1).unwrap()).unwrap();
        let (node, outside) = (cluster.member("node-1").unwrap(), cluster.outside().unwrap());
        let address = IpAddr::from(node.plan.address.ipv4);
        let test = "what_is_for_an_unsettled_address_waits_until_it_is_settled";
        let Some(mut leads) = node.enter(|| start(test)).unwrap() else {
            return;
        };
        let listener = node.enter(|| TcpListener::bind((address, 0))).unwrap().unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = outside
            .enter(|| TcpStream::connect((address, port)))
            .unwrap()
            .unwrap();
        let (mut served, _) = listener.accept().unwrap();
        let unsettled = Wanted {
            unsettled: [address].into(),
            ..Wanted::default()
        };
        leads.lead(NOW, &unsettled);
        let mut conntrack = node.enter(Conntrack::open).unwrap().unwrap();
        let mut known = || {
            let of_client = |flow: &netlink::conntrack::Flow| flow.original.destination.port() == port;
            conntrack
                .flows_to(usize::MAX, address, tcp::PROTOCOL, of_client)
                .unwrap()
        };
        let before = known();
        assert_eq!(before.len(), 1);
        let mut forgetting = node.enter(Conntrack::open).unwrap().unwrap();
        assert!(forgetting.forget(&before[0]).unwrap());

        client.write_all(b"still here").unwrap();
        served.set_read_timeout(Some(MISSING)).unwrap();
        let mut said = [0; 10];
        assert_eq!(served.read(&mut said).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(known(), []);

        leads.lead(NOW, &Wanted::default());
        served.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        served.read_exact(&mut said).unwrap();
        assert_eq!((&said, known().len()), (b"still here", 1));
    });
}
