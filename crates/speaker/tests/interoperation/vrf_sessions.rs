//! Sessions with a router in a VRF of the node, as BIRD sees them. The router is outside of the VRF in its own namespace.

use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::time::Duration;

use ipnet::IpNet;
use netlink::route::{Connection, LinkChange, LinkIndex, LinkName, Master, NetworkNamespace};
use netlink::self_addressed::SelfAddressedSocket;
use serde_json::{Value, json};

use crate::bird::Bird;
use crate::fixture::{Fixture, ROUTES};
use crate::router::Router as _;

const SHOW_ROUTES: &str = "show route all";
/// Link of the VRF, and its routing table.
const VRF: &str = "red";
const TABLE: &str = "10";
/// Link between the node and the router. The node has it in the VRF.
const LINK: &str = "red0";
const NODE_ADDRESSES: [&str; 2] = ["198.18.7.1/24", "fd00:7::1/64"];
const ROUTER_ADDRESSES: [&str; 2] = ["198.18.7.2/24", "fd00:7::2/64"];
const ROUTER: &str = "198.18.7.2";
/// Settings of the kernel: listeners outside of VRFs accept connections and packets of VRFs.
const SETTINGS: [&str; 2] = ["net.ipv4.tcp_l3mdev_accept", "net.ipv4.udp_l3mdev_accept"];
/// Error of `ip link add` where the kernel has no VRFs.
const UNKNOWN_KIND: &str = "Unknown device type";

/// Skips the test in a namespace without BIRD, iproute2 or VRFs.
fn require() {
    Bird::require();
    let namespace = NetworkNamespace::create().expect("a namespace");
    if let Err(error) = add_vrf(&namespace) {
        assert!(error.contains(UNKNOWN_KIND), "{error}");
        testbed::skip_inside("the kernel has no VRFs (module vrf)");
    }
}

/// Creates the link of the VRF. Returns the output of a command that fails.
fn add_vrf(namespace: &NetworkNamespace) -> Result<(), String> {
    let mut command = Command::new("ip");
    command.args(["link", "add", VRF, "type", "vrf", "table", TABLE]);
    namespace.start_inside(&mut command).expect("the namespace");
    let Ok(output) = command.output() else {
        testbed::skip_inside("iproute2 is not installed");
    };
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Connects node-1 with the router by a further link, in a VRF of the node.
fn connect(fixture: &Fixture) {
    let node = fixture.cluster.member("node-1").expect("a node");
    let router = fixture.cluster.outside().expect("a router");
    add_vrf(&node.namespace).expect("a VRF");
    let mut at_node = Connection::open_in(&node.namespace).expect("rtnetlink");
    let vrf = index(&mut at_node, VRF);
    at_node.change_link(vrf, &LinkChange::up()).expect("a VRF");
    let name: LinkName = LINK.parse().expect("a name");
    at_node
        .add_veth(&name, &name, Some(router.namespace.as_fd()))
        .expect("a link");
    let in_vrf = LinkChange {
        master: Some(Master::Of(vrf)),
        ..LinkChange::up()
    };
    set_up(&mut at_node, &in_vrf, NODE_ADDRESSES);
    let mut at_router = Connection::open_in(&router.namespace).expect("rtnetlink");
    set_up(&mut at_router, &LinkChange::up(), ROUTER_ADDRESSES);
}

/// Lets listeners of node-1 outside of VRFs accept connections and packets of VRFs.
fn accept_outside(fixture: &Fixture) {
    let node = fixture.cluster.member("node-1").expect("a node");
    for name in SETTINGS {
        let written = node.enter(|| testbed::write_sysctl(name, "1"));
        written.expect("the namespace").expect("a kernel parameter");
    }
}

/// Changes the link, then adds its addresses: the kernel moves their routes to the table of the VRF.
fn set_up(connection: &mut Connection, change: &LinkChange<'_>, addresses: [&str; 2]) {
    let link = index(connection, LINK);
    connection.change_link(link, change).expect("a link");
    for address in addresses {
        let network: IpNet = address.parse().expect("an address");
        connection.add_address(link, network).expect("an address");
    }
}

fn index(connection: &mut Connection, link: &str) -> LinkIndex {
    let name: LinkName = link.parse().expect("a name");
    connection.link_index(&name).expect("a link")
}

/// Routes of both families.
fn has_both(routes: &str) -> bool {
    ROUTES.iter().all(|route| routes.contains(route))
}

#[test]
fn bird_accepts_a_session_from_a_vrf_with_md5_and_bfd() {
    testbed::in_namespace(|| {
        require();
        let fixture = Fixture::start();
        connect(&fixture);
        let bird = Bird::start(
            &fixture.cluster,
            fixture.directory.path(),
            "protocol bfd { interface \"*\" { interval 300 ms; multiplier 5; }; }
             protocol bgp node1 {
                local as 64513; neighbor 198.18.7.1 as 64512; password \"of both\"; passive; bfd on;
                ipv4 { import all; export none; }; ipv6 { import all; export none; };
             }",
        );
        let profile = json!({"receiveInterval": 300, "transmitInterval": 300, "detectMultiplier": 5});
        fixture.create_own("bfdprofiles", "BFDProfile", "fast", profile);
        let secret = fixture.create_password("of both");
        fixture.create_peer(
            "router",
            json!({"peerAddress": ROUTER, "vrf": VRF, "passwordSecret": secret, "dualStackAddressFamily": true,
                   "bfdProfile": "fast"}),
        );
        // A router outside of the VRF: the listening sockets of both have the same ports.
        fixture.create_peer("outside", json!({"passive": true, "bfdProfile": "fast"}));
        fixture.create_own("bgpadvertisements", "BGPAdvertisement", "all", json!({}));
        fixture.create_service();
        let speaker = fixture.start_speaker();
        bird.wait_established("node1");
        let routes = bird.wait(SHOW_ROUTES, has_both);
        for expected in ["BGP.next_hop: 198.18.7.1", "BGP.next_hop: fd00:7::1"] {
            assert!(routes.contains(expected), "{expected} in {routes}");
        }
        bird.wait("show bfd sessions", |sessions| sessions.contains(" Up "));
        testbed::wait_until("BFD is up", Duration::from_secs(20), || {
            let status = speaker.metrics.status();
            let mut sessions = status.sessions.iter();
            let session = sessions.find(|session| session.address == ROUTER)?;
            (session.bfd.as_deref() == Some("up")).then_some(())
        });
        speaker.shut_down();
    });
}

/// The forwarding of the router returns packets from an address of the VRF to the same address (BFD echo).
#[test]
fn router_returns_packets_from_a_vrf_to_its_sender() {
    testbed::in_namespace(|| {
        require();
        let fixture = Fixture::start();
        connect(&fixture);
        let router = fixture.cluster.outside().expect("a router");
        for name in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            let written = router.enter(|| testbed::write_sysctl(name, "1"));
            written.expect("the namespace").expect("a kernel parameter");
        }
        let node = fixture.cluster.member("node-1").expect("a node");
        let exchange = || {
            let mut connection = Connection::open().expect("rtnetlink");
            let link = index(&mut connection, LINK);
            for (own, neighbour) in [("198.18.7.1", ROUTER), ("fd00:7::1", "fd00:7::2")] {
                let [own, neighbour]: [IpAddr; 2] =
                    [own, neighbour].map(|text| text.parse().expect("an address"));
                let socket = SelfAddressedSocket::open(link, Some(VRF), own, 3785).expect("sockets");
                let subject = format!("packets of {own} return");
                let payload = testbed::wait_until(&subject, Duration::from_secs(20), || {
                    // The first ones may precede the resolution of the neighbour.
                    socket.send(neighbour, 50_000, b"token").ok();
                    socket.receive().ok()
                });
                assert_eq!(payload, b"token");
            }
        };
        node.enter(exchange).expect("the namespace");
    });
}

/// A router that opens a session with these statements, and a speaker that accepts it in a VRF.
fn open_to_vrf(statements: &str, prepare: impl FnOnce(&Fixture) -> Value) {
    require();
    let fixture = Fixture::start();
    connect(&fixture);
    let mut peer = prepare(&fixture);
    let protocol = format!(
        "protocol bgp node1 {{
            local as 64513; neighbor 198.18.7.1 as 64512; connect delay time 1; connect retry time 1; {statements}
            ipv4 {{ import all; export none; }};
         }}"
    );
    let bird = Bird::start(&fixture.cluster, fixture.directory.path(), &protocol);
    // The same address outside of the VRF is another router.
    fixture.create_peer(
        "another",
        json!({"peerAddress": ROUTER, "peerASN": 64999, "passive": true}),
    );
    peer["peerAddress"] = ROUTER.into();
    peer["vrf"] = VRF.into();
    peer["passive"] = true.into();
    fixture.create_peer("router", peer);
    fixture.create_own("bgpadvertisements", "BGPAdvertisement", "all", json!({}));
    fixture.create_service();
    let speaker = fixture.start_speaker();
    bird.wait_established("node1");
    let routes = bird.wait_for(SHOW_ROUTES, ROUTES[0]);
    assert!(routes.contains("BGP.next_hop: 198.18.7.1"), "{routes}");
    speaker.shut_down();
}

#[test]
fn bird_opens_a_session_with_md5_to_a_vrf_and_its_peer_accepts_it() {
    testbed::in_namespace(|| {
        open_to_vrf(
            "password \"of both\";",
            |fixture| json!({"passwordSecret": fixture.create_password("of both")}),
        );
    });
}

#[test]
fn bird_opens_a_session_to_a_vrf_with_ttl_security() {
    testbed::in_namespace(|| {
        open_to_vrf("ttl security on;", |_| json!({"ttlSecurity": true}));
    });
}

#[test]
fn peer_of_a_vrf_accepts_a_session_that_a_listener_outside_received() {
    testbed::in_namespace(|| {
        open_to_vrf("", |fixture| {
            accept_outside(fixture);
            json!({})
        });
    });
}
