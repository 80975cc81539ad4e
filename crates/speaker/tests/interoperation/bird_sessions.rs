//! Sessions and routes as BIRD sees them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;

use crate::bird::Bird;
use crate::fixture::{ADDRESSES, Fixture};
use crate::router::Router as _;

const SHOW_ROUTES: &str = "show route all";
const GRACEFUL_SHUTDOWN: &str = "(65535,0)";

fn has_both(routes: &str) -> bool {
    ADDRESSES.iter().all(|address| routes.contains(address))
}

fn has_none(routes: &str) -> bool {
    ADDRESSES.iter().all(|address| !routes.contains(address))
}

#[test]
fn bird_keeps_both_families_of_a_session_with_md5_over_a_restart() {
    testbed::in_namespace(|| {
        Bird::require();
        let fixture = Fixture::start();
        let bird = Bird::start(
            &fixture.cluster,
            fixture.directory.path(),
            "protocol bgp node1 {
                local as 64513; neighbor 172.30.0.11 as 64512; password \"of both\"; passive;
                ipv4 { import all; export none; }; ipv6 { import all; export none; };
            }",
        );
        let secret = fixture.create_password("of both");
        fixture.create_peer(
            "router",
            json!({"passwordSecret": secret, "dualStackAddressFamily": true, "enableGracefulRestart": true}),
        );
        fixture.advertise_with_communities();
        fixture.create_service();
        let speaker = fixture.start_speaker();
        bird.wait_established("node1");
        let routes = bird.wait(SHOW_ROUTES, has_both);
        for expected in [
            "192.0.2.10/32",
            "fd00:192::10/128",
            "BGP.as_path: 64512",
            "BGP.next_hop: 172.30.0.11",
            "BGP.next_hop: fd00:30::11",
            "(64512,7)",
            "(64512, 1, 2)",
        ] {
            assert!(routes.contains(expected), "{expected} in {routes}");
        }
        let status = speaker.metrics.status();
        assert!(status.sessions[0].has_graceful_restart, "{status:?}");

        // Shutdown and crash: BIRD keeps the routes until a successor announces them.
        speaker.shut_down();
        assert!(has_both(&bird.query(SHOW_ROUTES)), "routes stay after a shutdown");
        let speaker = fixture.start_speaker();
        bird.wait_established("node1");
        speaker.kill();
        assert!(has_both(&bird.query(SHOW_ROUTES)), "routes stay after a crash");
        let speaker = fixture.start_speaker();
        bird.wait_established("node1");

        // A cordoned node yields, and withdraws its routes later: another node announces them.
        fixture.patch("/api/v1/nodes/node-1", &json!({"spec": {"unschedulable": true}}));
        let routes = bird.wait(SHOW_ROUTES, |routes| routes.contains(GRACEFUL_SHUTDOWN));
        assert!(has_both(&routes));
        bird.wait(SHOW_ROUTES, has_none);
        fixture.patch("/api/v1/nodes/node-1", &json!({"spec": {"unschedulable": null}}));
        bird.wait(SHOW_ROUTES, has_both);
        fixture.delete("/api/v1/namespaces/default/services/web");
        bird.wait(SHOW_ROUTES, has_none);
        speaker.shut_down();
    });
}

#[test]
fn bird_learns_preference_and_aggregate_in_an_internal_session_with_bfd() {
    testbed::in_namespace(|| {
        Bird::require();
        let fixture = Fixture::start();
        let bird = Bird::start(
            &fixture.cluster,
            fixture.directory.path(),
            "protocol bfd { interface \"*\" { interval 50 ms; multiplier 3; }; }
             protocol bgp node1 {
                local as 64512; neighbor 172.30.0.11 as 64512; connect delay time 1; connect retry time 1; direct; bfd on;
                ipv4 { import all; export none; };
             }",
        );
        let profile = json!({"receiveInterval": 50, "transmitInterval": 50, "detectMultiplier": 3});
        fixture.create_own("bfdprofiles", "BFDProfile", "fast", profile);
        fixture.create_peer(
            "router",
            json!({"peerASN": 64512, "passive": true, "bfdProfile": "fast"}),
        );
        let advertisement = json!({"aggregationLength": 24, "localPref": 200});
        fixture.create_own("bgpadvertisements", "BGPAdvertisement", "all", advertisement);
        fixture.create_service();
        let speaker = fixture.start_speaker();
        bird.wait_established("node1");
        let routes = bird.wait(SHOW_ROUTES, |routes| routes.contains("192.0.2.0/24"));
        assert!(
            routes.contains("BGP.local_pref: 200") && !routes.contains("192.0.2.10/32"),
            "{routes}"
        );
        bird.wait("show bfd sessions", |sessions| sessions.contains(" Up "));
        testbed::wait_until("BFD is up", Duration::from_secs(20), || {
            let status = speaker.metrics.status();
            (status.sessions[0].bfd.as_deref() == Some("up")).then_some(())
        });
        // A peer that is not configured any more loses its session.
        fixture.delete("/apis/portolan.dev/v1alpha1/bgppeers/router");
        bird.wait(SHOW_ROUTES, |routes| !routes.contains("192.0.2.0/24"));
        speaker.shut_down();
    });
}

#[test]
fn bird_learns_routes_of_a_multihop_session_by_ipv6() {
    testbed::in_namespace(|| {
        Bird::require();
        let fixture = Fixture::start();
        let router = fixture.cluster.topology.outside.address.ipv6;
        let bird = Bird::start(
            &fixture.cluster,
            fixture.directory.path(),
            "protocol bgp node1 {
                local as 4200000001; neighbor fd00:30::11 as 4200000000; multihop 3; passive;
                ipv4 { import all; export none; extended next hop on; gateway recursive; };
                ipv6 { import all; export none; };
             }
             protocol direct { ipv6; }",
        );
        fixture.create_peer(
            "router",
            json!({"myASN": 4_200_000_000_u32, "peerASN": 4_200_000_001_u32, "peerAddress": router.to_string(),
                   "ebgpMultiHop": true, "dualStackAddressFamily": true}),
        );
        fixture.create_own("bgpadvertisements", "BGPAdvertisement", "all", json!({}));
        fixture.create_service();
        let speaker = fixture.start_speaker();
        bird.wait_established("node1");
        let routes = bird.wait(SHOW_ROUTES, has_both);
        assert!(routes.contains("BGP.as_path: 4200000000"), "{routes}");
        speaker.shut_down();
    });
}

#[test]
fn bird_learns_both_families_from_a_peer_that_names_its_link_only() {
    testbed::in_namespace(|| {
        Bird::require();
        let fixture = Fixture::start();
        let bird = Bird::start(
            &fixture.cluster,
            fixture.directory.path(),
            "protocol radv { interface \"eth0\" { min ra interval 3; max ra interval 4; default lifetime 0; }; }
             protocol bgp nodes {
                local as 64513; neighbor range fe80::/10 as 64512; interface \"eth0\"; direct; dynamic name \"node\";
                ipv4 { import all; export none; extended next hop on; }; ipv6 { import all; export none; };
             }",
        );
        let spec = json!({"myASN": 64512, "peerASN": 64513, "interface": "eth0"});
        fixture.create_own("bgppeers", "BGPPeer", "router", spec);
        fixture.create_own("bgpadvertisements", "BGPAdvertisement", "all", json!({}));
        fixture.create_service();
        let speaker = fixture.start_speaker();
        bird.wait_established("node1");
        let routes = bird.wait(SHOW_ROUTES, has_both);
        assert_eq!(routes.matches("via fe80::").count(), 2, "{routes}");
        speaker.shut_down();
    });
}

#[test]
fn bird_accepts_and_opens_sessions_with_ttl_security() {
    testbed::in_namespace(|| {
        Bird::require();
        let fixture = Fixture::start();
        let router = fixture.cluster.topology.outside.address.ipv6;
        let bird = Bird::start(
            &fixture.cluster,
            fixture.directory.path(),
            "protocol bgp accepted {
                local as 64513; neighbor 172.30.0.11 as 64512; ttl security on; passive;
                ipv4 { import all; export none; };
             }
             protocol bgp opened {
                local as 64513; neighbor fd00:30::11 as 64512; ttl security on;
                connect delay time 1; connect retry time 1;
                ipv6 { import all; export none; };
             }",
        );
        fixture.create_peer("accepting", json!({"ttlSecurity": true}));
        fixture.create_peer(
            "opening",
            json!({"peerAddress": router.to_string(), "ttlSecurity": true, "passive": true}),
        );
        fixture.create_own("bgpadvertisements", "BGPAdvertisement", "all", json!({}));
        fixture.create_service();
        let speaker = fixture.start_speaker();
        bird.wait_established("accepted");
        bird.wait_established("opened");
        bird.wait(SHOW_ROUTES, has_both);
        speaker.shut_down();
    });
}

/// Addresses of an edge.
type Served = Arc<BTreeSet<IpAddr>>;

/// Returns the addresses of an edge that serves all.
fn edge() -> (watch::Sender<Served>, watch::Receiver<Served>) {
    let addresses: [IpAddr; 2] = ADDRESSES.map(|address| address.parse().expect("an address"));
    watch::channel(Arc::new(BTreeSet::from(addresses)))
}

#[test]
fn bird_keeps_routes_of_an_ended_edge_only_if_it_has_a_successor() {
    testbed::in_namespace(|| {
        Bird::require();
        let fixture = Fixture::start();
        let bird = Bird::start(
            &fixture.cluster,
            fixture.directory.path(),
            "protocol bgp node1 {
                local as 64513; neighbor 172.30.0.11 as 64512; passive;
                ipv4 { import all; export none; }; ipv6 { import all; export none; };
             }",
        );
        fixture.create_peer(
            "router",
            json!({"dualStackAddressFamily": true, "enableGracefulRestart": true}),
        );
        fixture.create_own("bgpadvertisements", "BGPAdvertisement", "all", json!({}));
        fixture.create_service_of_class(Some("portolan.dev/edge"));
        let (present, served) = edge();
        let speaker = fixture.start_speaker_with(Some(served));
        bird.wait(SHOW_ROUTES, has_both);
        // The edge ends after its hand-over, and its addresses remain.
        drop(present);
        speaker.shut_down();
        assert!(
            has_both(&bird.query(SHOW_ROUTES)),
            "the successor serves the addresses"
        );

        let (present, served) = edge();
        let speaker = fixture.start_speaker_with(Some(served));
        testbed::wait_until("routes are announced", Duration::from_secs(40), || {
            let status = speaker.metrics.status();
            let session = status.sessions.first()?;
            (session.announced_routes == 2).then_some(())
        });
        // The process ends with its edge.
        speaker.shut_down();
        bird.wait(SHOW_ROUTES, has_none);
        drop(present);
    });
}
