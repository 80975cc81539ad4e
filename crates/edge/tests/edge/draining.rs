//! Removed backends, and the shutdown of the edge.

use std::io::Read;
use std::time::Duration;

use edge::settings::Frontend;

use crate::fixture::{
    Fixture, TIMEOUT, connect, exchange, greeting, is_closed, named, runtime, service, wait_until,
};

#[test]
fn connections_to_a_removed_backend_end_after_the_drain_time() {
    let (a, b) = (named("a"), named("b"));
    let mut settings = service(Frontend::Tcp, &[a, b]);
    settings.policy.draining = Some(Duration::from_millis(200));
    let mut fixture = Fixture::new(settings);
    let mut clients: Vec<_> = (0..2).map(|_| fixture.connect()).collect();
    clients.sort_by_key(|client| greeting(&mut &*client).expect("a greeting"));
    fixture.set_backends(&[b]);
    assert_eq!(fixture.chosen_backend().expect("a backend"), "b");
    assert!(is_closed(&mut clients[0]));
    assert_eq!(exchange(&mut clients[1], "hello").expect("an echo"), "hello");
}

#[test]
fn connections_to_a_removed_backend_stay_without_a_drain_time() {
    let (a, b) = (named("a"), named("b"));
    let mut fixture = Fixture::new(service(Frontend::Tcp, &[a]));
    let mut client = fixture.connect();
    greeting(&mut client).expect("a greeting");
    fixture.set_backends(&[b]);
    assert_eq!(fixture.chosen_backend().expect("a backend"), "b");
    assert_eq!(exchange(&mut client, "hello").expect("an echo"), "hello");
}

#[test]
fn connections_of_a_removed_service_end_after_the_drain_time() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.policy.draining = Some(Duration::from_millis(100));
    let fixture = Fixture::new(settings);
    let mut client = fixture.connect();
    greeting(&mut client).expect("a greeting");
    fixture.edge.apply(&edge::settings::Settings::new());
    assert!(is_closed(&mut client));
    wait_until("no listener is left", || connect(fixture.address()).is_err());
}

#[test]
fn drain_waits_for_open_connections() {
    let fixture = Fixture::new(service(Frontend::Tcp, &[named("a")]));
    let mut client = fixture.connect();
    greeting(&mut client).expect("a greeting");
    let address = fixture.address();
    let talking = std::thread::spawn(move || {
        wait_until("no listener is left", || connect(address).is_err());
        let received = exchange(&mut client, "my last words").expect("an echo");
        client
            .shutdown(std::net::Shutdown::Write)
            .expect("the end of the connection");
        client.read_to_end(&mut Vec::new()).expect("an orderly end");
        received
    });
    runtime().block_on(fixture.edge.drain(TIMEOUT));
    assert_eq!(fixture.metric("portolan_edge_connections", ""), Some(0));
    assert_eq!(talking.join().expect("data from the backend"), "my last words");
}

#[test]
fn drain_closes_connections_after_its_timeout() {
    let fixture = Fixture::new(service(Frontend::Tcp, &[named("a")]));
    let mut client = fixture.connect();
    greeting(&mut client).expect("a greeting");
    runtime().block_on(fixture.edge.drain(Duration::from_millis(50)));
    assert!(is_closed(&mut client));
}

#[test]
fn connections_end_at_their_maximum_age() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.policy.connection_age_max = Some(Duration::from_millis(300));
    let fixture = Fixture::new(settings);
    let mut client = fixture.connect();
    greeting(&mut client).expect("a greeting");
    assert_eq!(exchange(&mut client, "hello").expect("an echo"), "hello");
    assert!(is_closed(&mut client));
    assert_eq!(fixture.chosen_backend().expect("a new connection"), "a");
}
