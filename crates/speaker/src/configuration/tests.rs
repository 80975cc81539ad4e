//! Objects as MetalLB's documentation has them, and invalid ones (LBM-12, LBM-13, LBM-14).

use std::time::Duration;

use bgp::community::AnyCommunity;
use bgp::session::PeerSystem;
use serde_json::{Value, json};

use super::parse::duration;
use super::{Configuration, Group, Location, Name, Object, Objects, Password};

fn name(name: &str) -> Name {
    (Group::MetalLb, name.to_owned())
}

fn object<S: serde::de::DeserializeOwned>(spec: Value) -> Object<S> {
    Object {
        uid: String::new(),
        labels: Default::default(),
        spec: serde_json::from_value(spec).expect("a spec"),
    }
}

fn with_peer(spec: Value) -> Configuration {
    let mut objects = Objects::default();
    objects.peers.insert(name("p"), object(spec));
    objects.profiles.insert(
        name("fast"),
        object(json!({"receiveInterval": 50, "transmitInterval": 50})),
    );
    Configuration::of(&objects, "metallb-system")
}

#[test]
fn reads_peers_with_defaults() {
    let configuration = with_peer(json!({"myASN": 64500, "peerASN": 64501, "peerAddress": "10.0.0.1"}));
    let peer = &configuration.peers[&name("p")];
    assert_eq!(
        (peer.local_as, peer.peer_as, peer.port),
        (64_500, PeerSystem::Number(64_501), 179)
    );
    assert_eq!((peer.hold_seconds, peer.keepalive), (90, None));
    assert_eq!(peer.connect_retry, Duration::from_secs(120));
    assert!(peer.password.is_none() && !peer.has_graceful_restart);
}

#[test]
fn reads_peers_without_address() {
    let configuration = with_peer(json!({"myASN": 64500, "dynamicASN": "external", "interface": "eth0"}));
    assert_eq!(configuration.invalid, []);
    let peer = &configuration.peers[&name("p")];
    assert_eq!(peer.location, Location::Link("eth0".to_owned()));
}

#[test]
fn reads_all_fields_of_peers() {
    let configuration = with_peer(json!({
        "myASN": 64500, "dynamicASN": "external", "localASN": 4200000000_u32, "peerAddress": "fd00::1", "peerPort": 1179,
        "sourceAddress": "fd00::2", "routerID": "10.10.10.10", "holdTime": "1m30s", "keepaliveTime": "10s",
        "connectTime": "5s", "nodeSelectors": [{"matchLabels": {"rack": "a"}}], "vrf": "red",
        "passwordSecret": {"name": "secret", "namespace": "metallb-system"}, "bfdProfile": "fast",
        "enableGracefulRestart": true, "ebgpMultiHop": true, "dualStackAddressFamily": true, "disableMP": false,
    }));
    assert_eq!(configuration.invalid, []);
    let peer = &configuration.peers[&name("p")];
    assert_eq!(
        (peer.local_as, peer.peer_as, peer.port),
        (4_200_000_000, PeerSystem::External, 1_179)
    );
    assert_eq!(
        (peer.hold_seconds, peer.keepalive),
        (90, Some(Duration::from_secs(10)))
    );
    assert_eq!(
        peer.bfd.expect("BFD").settings.receive_interval,
        Duration::from_millis(50)
    );
    assert!(
        matches!(&peer.password, Some(Password::Secret(key)) if key.to_string() == "metallb-system/secret")
    );
    assert!(peer.is_multi_hop && peer.has_graceful_restart && peer.is_dual_stack);
    assert_eq!(peer.vrf.as_deref(), Some("red"));
}

/// Reads a peer with a profile of BFD.
fn with_profile(profile: Value) -> Configuration {
    let mut objects = Objects::default();
    let spec = json!({"myASN": 64500, "peerASN": 64501, "peerAddress": "10.0.0.1", "bfdProfile": "echo"});
    objects.peers.insert(name("p"), object(spec));
    objects.profiles.insert(name("echo"), object(profile));
    Configuration::of(&objects, "metallb-system")
}

#[test]
fn reads_the_echo_function_of_profiles() {
    let cases = [
        (json!({}), None),
        (json!({"echoInterval": 20}), None),
        (json!({"echoMode": true}), Some(50)),
        (json!({"echoMode": true, "echoInterval": 20}), Some(20)),
    ];
    for (profile, milliseconds) in cases {
        let configuration = with_profile(profile.clone());
        let echo = configuration.peers[&name("p")].bfd.expect("BFD").settings.echo;
        let period = milliseconds.map(Duration::from_millis);
        assert_eq!(echo.map(|echo| echo.transmit_interval), period, "{profile}");
        assert_eq!(echo.map(|echo| echo.receive_interval), period, "{profile}");
    }
    let configuration = with_profile(json!({"echoMode": true, "echoInterval": 9}));
    assert!(configuration.peers.is_empty());
    assert!(configuration.invalid[0].reason.contains("spec.echoInterval"));
}

#[test]
fn rejects_invalid_peers_alone() {
    let base = json!({"myASN": 64500, "peerASN": 64501, "peerAddress": "10.0.0.1"});
    let changes = [
        json!({"myASN": 0}),
        json!({"peerASN": 0}),
        json!({"dynamicASN": "external"}),
        json!({"peerAddress": "router"}),
        json!({"peerAddress": ""}),
        json!({"interface": "eth0"}),
        json!({"peerAddress": "", "interface": "eth 0"}),
        json!({"peerAddress": "", "interface": "eth0", "sourceAddress": "10.0.0.2"}),
        json!({"peerAddress": "", "interface": "eth0", "ebgpMultiHop": true}),
        json!({"holdTime": "2s"}),
        json!({"keepaliveTime": "91s"}),
        json!({"keepaliveTime": "0s"}),
        json!({"keepaliveTime": "1ms"}),
        json!({"connectTime": "soon"}),
        json!({"routerID": "fd00::1"}),
        json!({"password": "a", "passwordSecret": {"name": "b"}}),
        json!({"password": "x".repeat(81)}),
        json!({"passwordSecret": {"name": "b", "namespace": "default"}}),
        json!({"bfdProfile": "missing"}),
        json!({"vrf": "a-name-that-no-link-has"}),
        json!({"peerASN": 64500, "ebgpMultiHop": true}),
        json!({"nodeSelectors": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}),
    ];
    for change in changes {
        let mut spec = base.clone();
        for (field, value) in change.as_object().expect("fields") {
            spec[field] = value.clone();
        }
        let configuration = with_peer(spec);
        assert!(configuration.peers.is_empty(), "{change}");
        assert_eq!(configuration.invalid.len(), 1, "{change}");
        assert_eq!(configuration.invalid[0].version(), "v1beta2", "{change}");
    }
}

#[test]
fn reads_advertisements_with_aliases() {
    let mut objects = Objects::default();
    objects.communities.insert(
        name("communities"),
        object(json!({"communities": [{"name": "vpn-only", "value": "1234:1"}, {"name": "no-adv", "value": "65535:65282"}]})),
    );
    objects.advertisements.insert(
        name("local"),
        object(
            json!({"ipAddressPools": ["bgp-pool"], "aggregationLength": 24, "localPref": 100,
                      "communities": ["vpn-only", "65535:65281", "large:1:2:3"], "peers": ["p"]}),
        ),
    );
    objects
        .advertisements
        .insert(name("invalid"), object(json!({"communities": ["other"]})));
    objects
        .advertisements
        .insert(name("longer"), object(json!({"aggregationLength": 33})));
    let configuration = Configuration::of(&objects, "metallb-system");
    let advertisement = &configuration.advertisements[&name("local")];
    assert_eq!((advertisement.length4, advertisement.length6), (24, 128));
    let expected: Vec<AnyCommunity> = ["1234:1", "no-export", "large:1:2:3"]
        .map(|text| text.parse().expect("a community"))
        .into();
    assert_eq!(advertisement.communities, expected);
    assert_eq!(configuration.invalid.len(), 2);
    assert_eq!(configuration.invalid[0].version(), "v1beta1");
}

#[test]
fn local_preference_of_zero_is_none_for_metallb_only() {
    let mut objects = Objects::default();
    for group in [Group::MetalLb, Group::Portolan] {
        let name = (group, "lowest".to_owned());
        objects
            .advertisements
            .insert(name, object(json!({"localPref": 0})));
    }
    let configuration = Configuration::of(&objects, "metallb-system");
    let of = |group| {
        let name = (group, "lowest".to_owned());
        configuration.advertisements[&name].local_preference
    };
    assert_eq!((of(Group::MetalLb), of(Group::Portolan)), (None, Some(0)));
}

#[test]
fn parses_durations_of_go() {
    for (text, milliseconds) in [
        ("90s", 90_000),
        ("1m30s", 90_000),
        ("1.5s", 1_500),
        ("0", 0),
        ("0s", 0),
        ("250ms", 250),
        ("1h", 3_600_000),
    ] {
        assert_eq!(
            duration(text),
            Some(Duration::from_millis(milliseconds)),
            "{text}"
        );
    }
    for text in ["", "s", "90", "1d", "-1s", "1s1", "999999999999999999999h"] {
        assert_eq!(duration(text), None, "{text}");
    }
}
