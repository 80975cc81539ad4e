//! Relay of UDP flows: choice of backends, limits and idle flows.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use edge::settings::{Frontend, Stickiness};
use netlink::route::{Connection, LinkName, Vxlan};

use crate::fixture::{Fixture, TIMEOUT, service, wait_until};

/// Returns a backend that responds with its name and the datagram.
pub(crate) fn named(name: &'static str) -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let address = socket.local_addr().expect("an address");
    std::thread::spawn(move || -> io::Result<()> {
        let mut buffer = [0; 2_048];
        loop {
            let (count, client) = socket.recv_from(&mut buffer)?;
            let response = [name.as_bytes(), b" ", &buffer[..count]].concat();
            socket.send_to(&response, client)?;
        }
    });
    address
}

/// Returns a client socket that receives from the edge only.
pub(crate) fn client(fixture: &Fixture) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.connect(fixture.address()).expect("a connection");
    socket.set_read_timeout(Some(TIMEOUT)).expect("a deadline");
    socket
}

/// Sends a datagram and returns the response.
pub(crate) fn request(client: &UdpSocket, text: &str) -> io::Result<String> {
    client.send(text.as_bytes())?;
    let mut response = [0; 2_048];
    let count = client.recv(&mut response)?;
    Ok(String::from_utf8_lossy(&response[..count]).into_owned())
}

#[test]
fn flows_keep_their_backends() {
    let fixture = Fixture::new(service(Frontend::Udp, &[named("a"), named("b")]));
    let (first, second) = (client(&fixture), client(&fixture));
    let home = request(&first, "1").expect("a response");
    assert_ne!(home, request(&second, "1").expect("a response"));
    for _ in 0..5 {
        assert_eq!(request(&first, "1").expect("a response"), home);
    }
    assert_eq!(fixture.metric("portolan_edge_connections", ""), Some(2));
}

#[test]
fn flows_move_off_removed_backends() {
    let (a, b) = (named("a"), named("b"));
    let mut fixture = Fixture::new(service(Frontend::Udp, &[a]));
    let client = client(&fixture);
    assert_eq!(request(&client, "x").expect("a response"), "a x");
    fixture.set_backends(&[b]);
    assert_eq!(request(&client, "x").expect("a response"), "b x");
}

#[test]
fn removes_idle_flows() {
    let mut settings = service(Frontend::Udp, &[named("a")]);
    settings.policy.idle_timeout = Duration::from_millis(50);
    let fixture = Fixture::new(settings);
    let client = client(&fixture);
    request(&client, "x").expect("a response");
    wait_until("the flow has ended", || {
        fixture.metric("portolan_edge_connections", "") == Some(0)
    });
    assert_eq!(request(&client, "x").expect("a response"), "a x");
}

#[test]
fn limits_and_source_ranges_apply_to_flows() {
    let mut settings = service(Frontend::Udp, &[named("a")]);
    settings.policy.limits.connections_max = 1;
    let mut fixture = Fixture::new(settings);
    let (first, second) = (client(&fixture), client(&fixture));
    request(&first, "x").expect("a response");
    second.send(b"x").expect("the data is sent");
    wait_until("the datagram is refused", || {
        fixture.metric("portolan_edge_refused_total", "service_connections") >= Some(1)
    });
    assert_eq!(request(&first, "y").expect("a response"), "a y");
    fixture.service.policy.limits.connections_max = 0;
    fixture.service.policy.source_ranges = vec!["192.0.2.0/24".parse().expect("a range")];
    fixture.apply();
    second.send(b"x").expect("the data is sent");
    wait_until("the datagram is refused", || {
        fixture.metric("portolan_edge_refused_total", "source_range") >= Some(1)
    });
}

#[test]
fn flows_of_one_client_reach_one_backend() {
    let mut settings = service(Frontend::Udp, &[named("a"), named("b")]);
    settings.policy.stickiness = Stickiness::Source {
        timeout: Duration::from_secs(600),
    };
    let fixture = Fixture::new(settings);
    let home = request(&client(&fixture), "x").expect("a response");
    for _ in 0..5 {
        assert_eq!(request(&client(&fixture), "x").expect("a response"), home);
    }
}

/// Adds a VXLAN link with a UDP port.
fn add_vxlan(port: u16) {
    let name = |text: &str| text.parse::<LinkName>().expect("a name");
    let mut host = Connection::open().expect("a socket");
    host.add_bridge(&name("br0")).expect("a bridge");
    let underlay = host.link_index(&name("br0")).expect("a link");
    let vxlan = Vxlan {
        id: 7,
        port,
        local: Ipv4Addr::new(192, 0, 2, 1).into(),
        underlay,
    };
    if let Err(error) = host.add_vxlan(&name("vx0"), &vxlan, [2, 0, 0, 0, 0, 1], 1450) {
        testbed::skip_inside(&format!("no VXLAN here: {error}"));
    }
}

/// Other hosts would take the datagrams of a client for packets of this host.
#[test]
fn sends_no_datagrams_to_ports_of_encapsulation() {
    testbed::in_namespace(|| {
        add_vxlan(8472);
        let mut fixture = Fixture::new(service(Frontend::Udp, &[named("a")]));
        let response = request(&client(&fixture), "x").expect("a response");
        assert_eq!(response, "a x", "other ports");
        fixture.set_backends(&[(Ipv4Addr::LOCALHOST, 8472).into()]);
        client(&fixture).send(b"frame").expect("a sent datagram");
        wait_until("a refused datagram", || {
            fixture.metric("portolan_edge_refused_total", "no_backend") == Some(1)
        });
    });
}
