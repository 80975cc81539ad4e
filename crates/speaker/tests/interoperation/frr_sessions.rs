//! Sessions and routes as FRR sees them.

use std::time::Duration;

use serde_json::json;

use crate::fixture::{Fixture, ROUTES};
use crate::frr::Frr;
use crate::router::Router as _;

/// Address of node-1, which runs the speaker.
const NODE: &str = "172.30.0.11";
/// Route of IPv4 with its attributes.
const SHOW_IPV4: &str = "show bgp ipv4 unicast 192.0.2.10/32";
/// Route of IPv6 with its attributes.
const SHOW_IPV6: &str = "show bgp ipv6 unicast fd00:192::10/128";

/// Profile of BFD. The detection time of 1.5 s exceeds the pauses of a busy host.
const BFD: &str =
    "bfd\n profile fast\n  detect-multiplier 5\n  receive-interval 300\n  transmit-interval 300\n";

/// Returns the configuration of `bgpd` with one neighbor: its statements, and its address families.
fn bgpd(system: u32, neighbor: &str, statements: &[&str], families: &[&str]) -> String {
    let mut lines = vec![
        format!("router bgp {system}"),
        " bgp router-id 172.30.0.100".to_owned(),
        " no bgp ebgp-requires-policy".to_owned(),
        " no bgp default ipv4-unicast".to_owned(),
    ];
    for statement in statements {
        lines.push(format!(" neighbor {neighbor} {statement}"));
    }
    for family in families {
        lines.push(format!(" address-family {family} unicast"));
        lines.push(format!("  neighbor {neighbor} activate"));
        lines.push(" exit-address-family".to_owned());
    }
    lines.join("\n") + "\n"
}

#[test]
fn frr_keeps_both_families_of_a_session_with_md5_over_a_restart() {
    testbed::in_namespace(|| {
        Frr::require();
        let fixture = Fixture::start();
        let statements = ["remote-as 64512", "password of-both", "timers connect 1"];
        let frr = Frr::start(
            &fixture.cluster,
            fixture.directory.path(),
            &bgpd(64513, NODE, &statements, &["ipv4", "ipv6"]),
            "",
            "",
        );
        let secret = fixture.create_password("of-both");
        fixture.create_peer(
            "router",
            json!({"passwordSecret": secret, "dualStackAddressFamily": true, "enableGracefulRestart": true}),
        );
        fixture.advertise_with_communities();
        fixture.create_service();
        let speaker = fixture.start_speaker();
        frr.wait_established(NODE);
        frr.wait_fresh(ROUTES);
        let route = frr.query(SHOW_IPV4);
        for expected in [
            "64512\n",
            "172.30.0.11 from 172.30.0.11",
            "Community: 64512:7",
            "Large Community: 64512:1:2",
        ] {
            assert!(route.contains(expected), "{expected} in {route}");
        }
        let route = frr.query(SHOW_IPV6);
        assert!(route.contains("fd00:30::11 from 172.30.0.11"), "{route}");
        let status = speaker.metrics.status();
        assert!(status.sessions[0].has_graceful_restart, "{status:?}");

        // Shutdown and crash: FRR keeps the routes until a successor announces them.
        speaker.shut_down();
        frr.wait_for(SHOW_IPV4, "stale");
        assert!(frr.has_both(ROUTES), "routes stay after a shutdown");
        let speaker = fixture.start_speaker();
        frr.wait_fresh(ROUTES);
        speaker.kill();
        frr.wait_for(SHOW_IPV4, "stale");
        assert!(frr.has_both(ROUTES), "routes stay after a crash");
        let speaker = fixture.start_speaker();
        frr.wait_fresh(ROUTES);

        // A cordoned node yields, and withdraws its routes later: another node announces them.
        fixture.patch("/api/v1/nodes/node-1", &json!({"spec": {"unschedulable": true}}));
        frr.wait_for(SHOW_IPV4, "graceful-shutdown");
        frr.wait_gone(ROUTES);
        speaker.shut_down();
    });
}

#[test]
fn frr_learns_preference_and_aggregate_in_an_internal_session_with_bfd() {
    testbed::in_namespace(|| {
        Frr::require();
        let fixture = Fixture::start();
        let statements = ["remote-as 64512", "bfd", "bfd profile fast", "timers connect 1"];
        let frr = Frr::start(
            &fixture.cluster,
            fixture.directory.path(),
            &bgpd(64512, NODE, &statements, &["ipv4"]),
            BFD,
            "",
        );
        let profile = json!({"receiveInterval": 300, "transmitInterval": 300, "detectMultiplier": 5});
        fixture.create_own("bfdprofiles", "BFDProfile", "fast", profile);
        fixture.create_peer(
            "router",
            json!({"peerASN": 64512, "passive": true, "bfdProfile": "fast"}),
        );
        let advertisement = json!({"aggregationLength": 24, "localPref": 200});
        fixture.create_own("bgpadvertisements", "BGPAdvertisement", "all", advertisement);
        fixture.create_service();
        let speaker = fixture.start_speaker();
        frr.wait_established(NODE);
        let aggregate = "show bgp ipv4 unicast 192.0.2.0/24";
        let route = frr.wait_for(aggregate, "1 available");
        assert!(route.contains("localpref 200"), "{route}");
        frr.wait_for(SHOW_IPV4, "not in table");
        frr.wait_for("show bfd peers json", "\"status\":\"up\"");
        testbed::wait_until("BFD is up", Duration::from_secs(20), || {
            let status = speaker.metrics.status();
            (status.sessions[0].bfd.as_deref() == Some("up")).then_some(())
        });
        // A peer that is not configured any more loses its session.
        fixture.delete("/apis/portolan.dev/v1alpha1/bgppeers/router");
        frr.wait_for(aggregate, "not in table");
        speaker.shut_down();
    });
}

/// Sets if the router forwards packets, and so returns echo packets.
fn set_forwarding(fixture: &Fixture, value: &'static str) {
    let outside = fixture.cluster.outside().expect("a router");
    let written = outside.enter(move || testbed::write_sysctl("net.ipv4.ip_forward", value));
    written.expect("its namespace").expect("a kernel parameter");
}

#[test]
fn frr_and_speaker_return_the_echo_packets_of_each_other() {
    testbed::in_namespace(|| {
        Frr::require();
        let fixture = Fixture::start();
        set_forwarding(&fixture, "1");
        let statements = ["remote-as 64512", "bfd", "bfd profile fast", "timers connect 1"];
        let echo = "  echo-mode\n  echo transmit-interval 300\n  echo receive-interval 300\n";
        let frr = Frr::start(
            &fixture.cluster,
            fixture.directory.path(),
            &bgpd(64513, NODE, &statements, &["ipv4"]),
            &format!("{BFD}{echo}"),
            "",
        );
        let profile = json!({"receiveInterval": 300, "transmitInterval": 300, "detectMultiplier": 5,
                             "echoMode": true, "echoInterval": 300});
        fixture.create_own("bfdprofiles", "BFDProfile", "fast", profile);
        fixture.create_peer("router", json!({"bfdProfile": "fast"}));
        fixture.create_own("bgpadvertisements", "BGPAdvertisement", "all", json!({}));
        fixture.create_service();
        let speaker = fixture.start_speaker();
        frr.wait_established(NODE);
        let wait_for_bfd = |expected: &str| {
            testbed::wait_until(expected, Duration::from_secs(20), || {
                let status = speaker.metrics.status();
                (status.sessions[0].bfd.as_deref() == Some(expected)).then_some(())
            });
        };
        wait_for_bfd("up");
        // The kernel of the node returns those of FRR.
        let returned = |counters: &str| {
            let mut inputs = counters.split("\"echo-packet-input\":").skip(1);
            inputs.any(|rest| !rest.starts_with('0'))
        };
        frr.wait("show bfd peers counters json", returned);
        // Control packets continue to arrive, and the node misses its echo packets.
        set_forwarding(&fixture, "0");
        wait_for_bfd("down");
        set_forwarding(&fixture, "1");
        wait_for_bfd("up");
        speaker.shut_down();
    });
}

#[test]
fn frr_learns_both_families_from_a_peer_that_names_its_link_only() {
    testbed::in_namespace(|| {
        Frr::require();
        let fixture = Fixture::start();
        let neighbor = bgpd(
            64513,
            "eth0",
            &[
                "interface remote-as external",
                "bfd",
                "bfd profile fast",
                "timers connect 1",
            ],
            &["ipv4", "ipv6"],
        );
        let frr = Frr::start(
            &fixture.cluster,
            fixture.directory.path(),
            &neighbor,
            BFD,
            "interface eth0\n no ipv6 nd suppress-ra\n ipv6 nd ra-interval 10\n",
        );
        let profile = json!({"receiveInterval": 300, "transmitInterval": 300, "detectMultiplier": 5});
        fixture.create_own("bfdprofiles", "BFDProfile", "fast", profile);
        let spec =
            json!({"myASN": 64512, "dynamicASN": "external", "interface": "eth0", "bfdProfile": "fast"});
        fixture.create_own("bgppeers", "BGPPeer", "router", spec);
        fixture.create_own("bgpadvertisements", "BGPAdvertisement", "all", json!({}));
        fixture.create_service();
        let speaker = fixture.start_speaker();
        frr.wait_established("eth0");
        frr.wait_fresh(ROUTES);
        for command in [SHOW_IPV4, SHOW_IPV6] {
            let route = frr.query(command);
            assert!(
                route.contains("from eth0") && route.contains(" fe80::") && route.contains("valid"),
                "{route}"
            );
        }
        testbed::wait_until("BFD is up", Duration::from_secs(20), || {
            let status = speaker.metrics.status();
            (status.sessions[0].bfd.as_deref() == Some("up")).then_some(())
        });
        assert_eq!(speaker.metrics.status().sessions[0].address, "eth0");
        speaker.shut_down();
    });
}

#[test]
fn frr_learns_routes_of_a_multihop_session_by_ipv6() {
    testbed::in_namespace(|| {
        Frr::require();
        let fixture = Fixture::start();
        let router = fixture.cluster.topology.outside.address.ipv6;
        let statements = ["remote-as 4200000000", "ebgp-multihop 3", "timers connect 1"];
        let frr = Frr::start(
            &fixture.cluster,
            fixture.directory.path(),
            &bgpd(4_200_000_001, "fd00:30::11", &statements, &["ipv4", "ipv6"]),
            "",
            "",
        );
        fixture.create_peer(
            "router",
            json!({"myASN": 4_200_000_000_u32, "peerASN": 4_200_000_001_u32, "peerAddress": router.to_string(),
                   "ebgpMultiHop": true, "dualStackAddressFamily": true}),
        );
        fixture.create_own("bgpadvertisements", "BGPAdvertisement", "all", json!({}));
        fixture.create_service();
        let speaker = fixture.start_speaker();
        frr.wait_established("fd00:30::11");
        frr.wait_fresh(ROUTES);
        let route = frr.query(SHOW_IPV6);
        assert!(route.contains("4200000000\n"), "{route}");
        speaker.shut_down();
    });
}

#[test]
fn frr_learns_a_route_of_a_session_with_ttl_security() {
    testbed::in_namespace(|| {
        Frr::require();
        let fixture = Fixture::start();
        let statements = ["remote-as 64512", "ttl-security hops 1", "timers connect 1"];
        let frr = Frr::start(
            &fixture.cluster,
            fixture.directory.path(),
            &bgpd(64513, NODE, &statements, &["ipv4"]),
            "",
            "",
        );
        fixture.create_peer("router", json!({"ttlSecurity": true}));
        fixture.create_own("bgpadvertisements", "BGPAdvertisement", "all", json!({}));
        fixture.create_service();
        let speaker = fixture.start_speaker();
        frr.wait_established(NODE);
        frr.wait_for(SHOW_IPV4, "1 available");
        speaker.shut_down();
    });
}
