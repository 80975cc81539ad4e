//! Sessions and routes as GoBGP sees them.

use serde_json::json;

use crate::fixture::{Fixture, ROUTES};
use crate::gobgp::GoBgp;
use crate::router::Router as _;

#[test]
fn gobgp_keeps_both_families_of_a_session_with_md5_over_a_restart() {
    testbed::in_namespace(|| {
        GoBgp::require();
        let fixture = Fixture::start();
        let gobgp = GoBgp::start(
            &fixture.cluster,
            fixture.directory.path(),
            64513,
            "[neighbors.config]\nneighbor-address = \"172.30.0.11\"\npeer-as = 64512\nauth-password = \"of-both\"\n\
             [neighbors.transport.config]\npassive-mode = true\n\
             [neighbors.graceful-restart.config]\nenabled = true\nrestart-time = 120\nnotification-enabled = true",
        );
        let secret = fixture.create_password("of-both");
        fixture.create_peer(
            "router",
            json!({"passwordSecret": secret, "dualStackAddressFamily": true, "enableGracefulRestart": true}),
        );
        fixture.advertise_with_communities();
        fixture.create_service();
        let speaker = fixture.start_speaker();
        let routes = gobgp.wait_fresh(ROUTES);
        for expected in [
            "172.30.0.11 ",
            "fd00:30::11 ",
            " 64512 ",
            "{Communities: 64512:7}",
            "{LargeCommunity: [ 64512:1:2]}",
        ] {
            assert!(routes.contains(expected), "{expected} in {routes}");
        }
        let status = speaker.metrics.status();
        assert!(status.sessions[0].has_graceful_restart, "{status:?}");

        // A crash: GoBGP keeps the routes until a successor announces them.
        speaker.kill();
        gobgp.wait_for("global rib", "S*");
        assert!(gobgp.has_both(ROUTES), "routes stay after a crash");
        let speaker = fixture.start_speaker();
        gobgp.wait_fresh(ROUTES);
        fixture.delete("/api/v1/namespaces/default/services/web");
        gobgp.wait("global rib", |routes| !routes.contains("192.0.2.10"));
        speaker.shut_down();
    });
}

#[test]
fn gobgp_opens_an_internal_session_and_learns_preference_and_aggregate() {
    testbed::in_namespace(|| {
        GoBgp::require();
        let fixture = Fixture::start();
        let gobgp = GoBgp::start(
            &fixture.cluster,
            fixture.directory.path(),
            64512,
            "[neighbors.config]\nneighbor-address = \"172.30.0.11\"\npeer-as = 64512\n\
             [neighbors.timers.config]\nconnect-retry = 5",
        );
        fixture.create_peer("router", json!({"peerASN": 64512, "passive": true}));
        let advertisement = json!({"aggregationLength": 24, "localPref": 200});
        fixture.create_own("bgpadvertisements", "BGPAdvertisement", "all", advertisement);
        fixture.create_service();
        let speaker = fixture.start_speaker();
        let routes = gobgp.wait_for("global rib", "192.0.2.0/24");
        assert!(
            routes.contains("{LocalPref: 200}") && !routes.contains("192.0.2.10/32"),
            "{routes}"
        );
        speaker.shut_down();
    });
}

#[test]
fn gobgp_learns_routes_of_a_multihop_session_by_ipv6() {
    testbed::in_namespace(|| {
        GoBgp::require();
        let fixture = Fixture::start();
        let router = fixture.cluster.topology.outside.address.ipv6;
        let gobgp = GoBgp::start(
            &fixture.cluster,
            fixture.directory.path(),
            4_200_000_001,
            "[neighbors.config]\nneighbor-address = \"fd00:30::11\"\npeer-as = 4200000000\n\
             [neighbors.transport.config]\npassive-mode = true\n\
             [neighbors.ebgp-multihop.config]\nenabled = true\nmultihop-ttl = 3",
        );
        fixture.create_peer(
            "router",
            json!({"myASN": 4_200_000_000_u32, "peerASN": 4_200_000_001_u32, "peerAddress": router.to_string(),
                   "ebgpMultiHop": true, "dualStackAddressFamily": true}),
        );
        fixture.create_own("bgpadvertisements", "BGPAdvertisement", "all", json!({}));
        fixture.create_service();
        let speaker = fixture.start_speaker();
        let routes = gobgp.wait_fresh(ROUTES);
        assert!(routes.contains(" 4200000000 "), "{routes}");
        speaker.shut_down();
    });
}
