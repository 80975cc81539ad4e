//! Listeners for datagrams.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use edge::settings::{Frontend, Stickiness};

use crate::setting::{PATIENCE, Setting, service, wait_until};

/// A backend that answers with its name and what it was told.
pub fn named(name: &'static str) -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let address = socket.local_addr().expect("an address");
    std::thread::spawn(move || -> io::Result<()> {
        let mut words = [0; 2_048];
        loop {
            let (count, client) = socket.recv_from(&mut words)?;
            let answer = [name.as_bytes(), b" ", &words[..count]].concat();
            socket.send_to(&answer, client)?;
        }
    });
    address
}

/// A client that hears the edge alone.
pub fn client(setting: &Setting) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.connect(setting.address()).expect("connected");
    socket.set_read_timeout(Some(PATIENCE)).expect("a deadline");
    socket
}

/// What is answered.
pub fn ask(client: &UdpSocket, words: &str) -> io::Result<String> {
    client.send(words.as_bytes())?;
    let mut answer = [0; 2_048];
    let count = client.recv(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..count]).into_owned())
}

#[test]
fn a_flow_stays_with_its_backend_and_others_have_theirs() {
    let setting = Setting::new(service(Frontend::Udp, &[named("a"), named("b")]));
    let (first, second) = (client(&setting), client(&setting));
    let home = ask(&first, "1").expect("an answer");
    assert_ne!(home, ask(&second, "1").expect("an answer"));
    for _ in 0..5 {
        assert_eq!(ask(&first, "1").expect("an answer"), home);
    }
    assert_eq!(setting.metric("portolan_edge_connections", ""), Some(2));
}

#[test]
fn a_flow_goes_on_elsewhere_when_its_backend_leaves() {
    let (a, b) = (named("a"), named("b"));
    let mut setting = Setting::new(service(Frontend::Udp, &[a]));
    let client = client(&setting);
    assert_eq!(ask(&client, "x").expect("an answer"), "a x");
    setting.set_backends(&[b]);
    assert_eq!(ask(&client, "x").expect("an answer"), "b x");
}

#[test]
fn silent_flows_are_forgotten() {
    let mut settings = service(Frontend::Udp, &[named("a")]);
    settings.policy.idle_timeout = Duration::from_millis(50);
    let setting = Setting::new(settings);
    let client = client(&setting);
    ask(&client, "x").expect("an answer");
    wait_until("the flow is gone", || {
        setting.metric("portolan_edge_connections", "") == Some(0)
    });
    assert_eq!(ask(&client, "x").expect("an answer"), "a x");
}

#[test]
fn flows_have_their_bound_and_their_ranges() {
    let mut settings = service(Frontend::Udp, &[named("a")]);
    settings.policy.limits.connections_max = 1;
    let mut setting = Setting::new(settings);
    let (first, second) = (client(&setting), client(&setting));
    ask(&first, "x").expect("an answer");
    second.send(b"x").expect("sent");
    wait_until("it is refused", || {
        setting.metric("portolan_edge_refused_total", "service_connections") >= Some(1)
    });
    assert_eq!(ask(&first, "y").expect("an answer"), "a y");
    setting.service.policy.limits.connections_max = 0;
    setting.service.policy.source_ranges = vec!["192.0.2.0/24".parse().expect("a range")];
    setting.apply();
    second.send(b"x").expect("sent");
    wait_until("it is refused", || {
        setting.metric("portolan_edge_refused_total", "source_range") >= Some(1)
    });
}

#[test]
fn a_client_of_many_ports_stays_with_its_backend() {
    let mut settings = service(Frontend::Udp, &[named("a"), named("b")]);
    settings.policy.stickiness = Stickiness::Source {
        timeout: Duration::from_secs(600),
    };
    let setting = Setting::new(settings);
    let home = ask(&client(&setting), "x").expect("an answer");
    for _ in 0..5 {
        assert_eq!(ask(&client(&setting), "x").expect("an answer"), home);
    }
}
