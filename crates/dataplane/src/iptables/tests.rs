use std::process::Command;

use api::object::{EndpointSlice, ObjectKey, Service};
use netlink::accounting::AccountingConnection;
use plan::{NodeFacts, NodePortAddresses, Settings};
use serde_json::json;

use super::*;
use crate::tests::test_plans::{planned, put, settings};

fn options(variant: Variant) -> Options {
    Options {
        variant: Some(variant),
        repairs_by_canary: 0,
        ..Options::default()
    }
}

/// Opens the data plane and applies a whole plan. Skips the test if the programs are missing.
fn loaded(plan: &mut Plan, variant: Variant) -> IptablesDataplane {
    let mut dataplane = match IptablesDataplane::open(options(variant)) {
        Err(DataplaneError::Program {
            source: error @ ProgramError::Start { .. },
        }) => testbed::skip_inside(&error.to_string()),
        opened => opened.unwrap(),
    };
    let changes = plan.take_changes();
    dataplane.apply(plan, &changes).unwrap();
    dataplane
}

fn update(plan: &mut Plan, dataplane: &mut IptablesDataplane) -> Applied {
    let changes = plan.take_changes();
    dataplane.apply(plan, &changes).unwrap()
}

/// Generates a test for each variant.
macro_rules! for_both {
    ($name:ident, $test:expr) => {
        mod $name {
            use super::*;

            #[test]
            fn holds_with_nft() {
                testbed::in_namespace(|| $test(Variant::Nft));
            }

            #[test]
            fn holds_with_legacy() {
                testbed::in_namespace(|| $test(Variant::Legacy));
            }
        }
    };
}

fn iptables(arguments: &str) {
    let status = Command::new("iptables-nft")
        .args(arguments.split(' '))
        .status()
        .unwrap();
    assert!(status.success(), "iptables-nft {arguments}");
}

#[test]
fn endpoint_change_rewrites_own_chains_only() {
    testbed::in_namespace(|| {
        let mut plan = planned(5);
        let mut dataplane = loaded(&mut plan, Variant::Nft);
        put(&mut plan, 2, 4);
        // The chain of the new endpoint, and the chain that balances.
        assert_eq!(update(&mut plan, &mut dataplane).elements, 2);
        put(&mut plan, 2, 3);
        assert_eq!(update(&mut plan, &mut dataplane).elements, 2);
        assert_eq!(dataplane.repair(&plan).unwrap(), 0);
    });
}

#[test]
fn repairs_external_changes() {
    testbed::in_namespace(|| {
        let mut plan = planned(3);
        let mut dataplane = loaded(&mut plan, Variant::Nft);
        iptables("-t nat -F KUBE-SERVICES");
        assert_eq!(dataplane.repair(&plan).unwrap(), 1);
        iptables("-t nat -D PREROUTING 1");
        iptables("-t nat -N KUBE-SEP-AAAAAAAAAAAAAAAA");
        assert_eq!(dataplane.repair(&plan).unwrap(), 2);
        iptables("-t filter -I INPUT -p tcp --dport 22 -j ACCEPT");
        assert_eq!(
            dataplane.repair(&plan).unwrap(),
            0,
            "rules of others are left alone"
        );
    });
}

for_both!(packets_that_are_dropped_as_invalid_are_counted, |variant| {
    let mut accounting = AccountingConnection::open().unwrap();
    if let Err(error) = accounting.ensure(INVALID_DROPPED_COUNTER) {
        testbed::skip_inside(&format!("no counters by name in this kernel: {error}"));
    }
    let mut plan = planned(1);
    let mut dataplane = loaded(&mut plan, variant);
    assert!(
        dataplane
            .families
            .iter()
            .all(FamilyTables::counts_invalid_packets)
    );
    assert_eq!(
        dataplane.repair(&plan).unwrap(),
        0,
        "the rule reads back as it was written"
    );
    // A rule uses it.
    assert!(accounting.remove(INVALID_DROPPED_COUNTER).is_err());
    IptablesDataplane::cleanup(Leftovers::All).unwrap();
    accounting.remove(INVALID_DROPPED_COUNTER).unwrap();
    // A repair creates it with the rules again.
    dataplane.repair(&plan).unwrap();
    assert_eq!(accounting.packets(INVALID_DROPPED_COUNTER).unwrap(), Some(0));
});

/// Adds a Service with a load balancer IP, source ranges, port ranges of two protocols and this many endpoints. Its range
/// contains the port of the Services of [`planned`].
fn put_ranges(plan: &mut Plan, endpoints: usize) {
    let service: Service = serde_json::from_value(json!({
        "metadata": {"namespace": "ns", "name": "a-ranges",
            "annotations": {"service.portolan.dev/port-ranges": "all/TCP,5060-5160/UDP"}},
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.96.9.1", "clusterIPs": ["10.96.9.1", "fd00:10:96::9:1"],
            "ipFamilies": ["IPv4", "IPv6"], "externalIPs": ["10.96.0.2"], "externalTrafficPolicy": "Local",
            "loadBalancerSourceRanges": ["192.0.2.0/24", "2001:db8::/64"],
            "ports": [{"name": "sip", "protocol": "UDP", "port": 5060}],
        },
        "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.9"}, {"ip": "2001:db8:1::9"}]}},
    }))
    .unwrap();
    plan.apply_service(&service);
    for (family, prefix) in [("IPv4", "10.244.9."), ("IPv6", "fd00:244::9:")] {
        let endpoints: Vec<_> = (0..endpoints)
            .map(|index| json!({"addresses": [format!("{prefix}{}", index + 1)], "nodeName": "node-b"}))
            .collect();
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": format!("a-ranges-{}", family.to_lowercase()),
                "labels": {"kubernetes.io/service-name": "a-ranges"}},
            "addressType": family,
            "ports": [{"name": "sip", "protocol": "UDP", "port": 5060}],
            "endpoints": endpoints,
        }))
        .unwrap();
        plan.apply_slice(&slice);
    }
}

/// Returns a plan with two Services, and a node that answers ping.
fn answering_plan() -> Plan {
    let ips = ["192.0.2.1", "2001:db8::1"].map(|ip| ip.parse().unwrap());
    let mut plan = Plan::new(Settings {
        answers_ping: true,
        node_addresses: ips.to_vec(),
        ..settings()
    });
    plan.set_node(NodeFacts {
        ips: ips.to_vec(),
        ..NodeFacts::default()
    });
    put(&mut plan, 0, 3);
    put(&mut plan, 1, 3);
    plan
}

for_both!(ranges_and_answers_to_ping_read_back_as_written, |variant| {
    let mut plan = answering_plan();
    // One, two and three matches select an endpoint.
    for endpoints in [40, 3, 1, 0] {
        put_ranges(&mut plan, endpoints);
        let mut dataplane = loaded(&mut plan, variant);
        assert_eq!(dataplane.repair(&plan).unwrap(), 0, "{endpoints} endpoints");
        put(&mut plan, 1, 2);
        assert_eq!(update(&mut plan, &mut dataplane).skipped, []);
        put(&mut plan, 1, 3);
        update(&mut plan, &mut dataplane);
        assert_eq!(dataplane.repair(&plan).unwrap(), 0, "{endpoints} endpoints");
    }
});

#[test]
fn answers_to_ping_are_in_a_chain_of_their_own() {
    testbed::in_namespace(|| {
        loaded(&mut answering_plan(), Variant::Nft);
        let output = Command::new("iptables-nft-save").args(["-t", "nat"]).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        let rules = |chain: &str| -> Vec<&str> {
            let lines = text.lines().filter(|line| line.contains("-p icmp "));
            lines.filter(|line| line.starts_with(chain)).collect()
        };
        let jumps = rules("-A KUBE-SERVICES ");
        assert!(
            matches!(&*jumps, [jump] if jump.ends_with("-j KUBE-PINGS")),
            "{jumps:?}"
        );
        assert!(rules("-A KUBE-PINGS ").len() >= 2, "{text}");
    });
}

#[test]
fn ports_of_all_services_precede_ranges() {
    testbed::in_namespace(|| {
        let mut plan = planned(2);
        put_ranges(&mut plan, 2);
        // Without endpoints, the port at the external IP of the ranges is still refused.
        put(&mut plan, 1, 0);
        loaded(&mut plan, Variant::Nft);
        let output = Command::new("iptables-nft-save").args(["-t", "nat"]).output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        let position = |part: &str| {
            let rules = text.lines().filter(|line| line.starts_with("-A KUBE-SERVICES "));
            let found = rules.enumerate().find(|(_, line)| line.contains(part));
            found.unwrap_or_else(|| panic!("no rule with {part} in {text}")).0
        };
        let range = position("-d 10.96.0.2/32 -p tcp -m comment --comment \"ns/a-ranges:* external IP\"");
        assert!(position("ns/s0:http cluster IP") < range);
        assert!(position("ns/s1:http has no endpoints") < range);
        assert!(range < position("kubernetes service nodeports"));
    });
}

#[test]
fn shares_of_sources_are_equal() {
    for count in 2..=1024_usize {
        let rule = rule::Rule::new()
            .one_source_in(count, (1 << 32) | 2)
            .jump("ACCEPT");
        let share: usize = rule
            .split("--cluster-total-nodes ")
            .skip(1)
            .map(|rest| rest.split(' ').next().unwrap().parse::<usize>().unwrap())
            .inspect(|total| assert!((2..=32).contains(total), "{rule}"))
            .product();
        assert!(share.abs_diff(count) * 25 <= count, "{count} sources: {rule}");
    }
}

#[test]
fn canary_detects_flush_between_full_comparisons() {
    testbed::in_namespace(|| {
        let mut plan = planned(1);
        let mut dataplane = loaded(&mut plan, Variant::Nft);
        dataplane.options.repairs_by_canary = 100;
        assert_eq!(dataplane.repair(&plan).unwrap(), 0);
        iptables("-t nat -F");
        assert!(dataplane.repair(&plan).unwrap() > 5);
        iptables("-t mangle -X KUBE-PROXY-CANARY");
        assert_eq!(dataplane.repair(&plan).unwrap(), 1);
    });
}

for_both!(change_after_a_flush_restores_all_rules, |variant| {
    let mut plan = planned(3);
    let mut dataplane = loaded(&mut plan, variant);
    IptablesDataplane::cleanup(Leftovers::All).unwrap();
    put(&mut plan, 1, 2);
    update(&mut plan, &mut dataplane);
    // The next repair finds the rules that the change did not touch.
    dataplane.repair(&plan).unwrap();
    assert_eq!(dataplane.repair(&plan).unwrap(), 0);
    assert!(
        dataplane
            .families
            .iter()
            .all(|tables| tables.has_required_jumps().unwrap())
    );
});

for_both!(next_process_adopts_rules_without_writes, |variant| {
    let mut plan = planned(3);
    drop(loaded(&mut plan, variant));
    let mut next = IptablesDataplane::open(options(variant)).unwrap();
    plan.mark_everything();
    assert_eq!(update(&mut plan, &mut next).elements, 0);
    // Objects that disappeared meanwhile are removed.
    plan.remove_service(&ObjectKey::new("ns", "s1"));
    plan.take_changes();
    plan.mark_everything();
    let mut next = IptablesDataplane::open(options(variant)).unwrap();
    // Three endpoints, two chains of the Service, three shared chains.
    assert_eq!(update(&mut plan, &mut next).elements, 8);
});

for_both!(cleanup_removes_everything_that_others_do_not_use, |variant| {
    let mut plan = planned(2);
    let dataplane = loaded(&mut plan, variant);
    drop(dataplane);
    assert!(IptablesDataplane::cleanup(Leftovers::All).unwrap());
    assert!(!IptablesDataplane::cleanup(Leftovers::All).unwrap());
});

#[test]
fn cleanup_keeps_chains_with_foreign_references() {
    testbed::in_namespace(|| {
        let mut plan = planned(1);
        drop(loaded(&mut plan, Variant::Nft));
        iptables("-t nat -N CNI-HOSTPORT");
        iptables("-t nat -A CNI-HOSTPORT -j KUBE-MARK-MASQ");
        assert!(IptablesDataplane::cleanup(Leftovers::All).unwrap());
        iptables("-t nat -C CNI-HOSTPORT -j KUBE-MARK-MASQ");
        iptables("-t nat -C KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000");
    });
}

/// IPT-11: a change of one Service leaves out the chains of the others.
#[test]
fn counters_match_tables() {
    testbed::in_namespace(|| {
        let mut plan = planned(3);
        let mut dataplane = loaded(&mut plan, Variant::Nft);
        let counted = |dataplane: &IptablesDataplane| {
            let of_family = &dataplane.counts().iptables[0];
            let tables = of_family.tables.iter().map(|table| (table.table, table.rules));
            tables.collect::<Vec<_>>()
        };
        let found = || {
            ["mangle", "filter", "nat"].map(|table| {
                let output = Command::new("iptables-nft-save").args(["-t", table]).output();
                let text = String::from_utf8(output.unwrap().stdout).unwrap();
                (
                    table,
                    text.lines().filter(|line| line.starts_with("-A")).count() as u64,
                )
            })
        };
        assert_eq!(counted(&dataplane), found());
        put(&mut plan, 1, 5);
        update(&mut plan, &mut dataplane);
        assert_eq!(counted(&dataplane), found());
        let last = dataplane.counts().iptables[0].tables[2].rules_last;
        assert!(last > 0 && last < found()[2].1, "{last} rules are written again");
    });
}

#[test]
fn rules_exclude_loopback_addresses() {
    let matches_of = |node_ports: NodePortAddresses| {
        let settings = Settings {
            node_port_addresses: node_ports,
            ..settings()
        };
        context::Context::new(
            Family::V4,
            &settings,
            &Options::default(),
            context::InvalidPackets::Dropped,
        )
        .node_ports
    };
    use context::NodePortMatch::NotOnLoopback;
    assert_eq!(matches_of(NodePortAddresses::All), [NotOnLoopback]);
    assert_eq!(matches_of(NodePortAddresses::Primary(Vec::new())), []);
    let loopback = NodePortAddresses::Within(vec!["127.0.0.0/8".parse().unwrap()]);
    assert_eq!(matches_of(loopback), []);
}

#[test]
fn ipvs_cleanup_keeps_iptables_chains() {
    testbed::in_namespace(|| {
        let mut plan = planned(1);
        let mut dataplane = loaded(&mut plan, Variant::Nft);
        iptables("-t filter -N KUBE-IPVS-FILTER");
        iptables("-t filter -A INPUT -j KUBE-IPVS-FILTER");
        iptables("-t nat -N KUBE-LOAD-BALANCER");
        assert!(IptablesDataplane::cleanup(Leftovers::IpvsOnly).unwrap());
        assert!(!IptablesDataplane::cleanup(Leftovers::IpvsOnly).unwrap());
        assert_eq!(dataplane.repair(&plan).unwrap(), 0);
        iptables("-t filter -N KUBE-IPVS-FILTER");
        assert!(IptablesDataplane::cleanup(Leftovers::All).unwrap());
        assert!(!IptablesDataplane::cleanup(Leftovers::All).unwrap());
    });
}

#[test]
fn cleanup_of_own_chains_keeps_those_of_kube_proxy() {
    testbed::in_namespace(|| {
        // kube-proxy has no chain KUBE-CLUSTER-IPS.
        iptables("-t nat -N KUBE-SERVICES");
        assert!(!IptablesDataplane::cleanup(Leftovers::Own).unwrap());
        let mut plan = planned(1);
        drop(loaded(&mut plan, Variant::Nft));
        assert!(IptablesDataplane::cleanup(Leftovers::Own).unwrap());
        assert!(!IptablesDataplane::cleanup(Leftovers::All).unwrap());
    });
}
