//! Backends that leave, and the edge's own end.

use std::io::Read;
use std::time::Duration;

use edge::settings::Frontend;

use crate::setting::{
    PATIENCE, Setting, connect, exchange, greeting, is_closed, named, runtime, service, wait_until,
};

#[test]
fn connections_to_a_backend_that_left_end_when_their_time_is_over() {
    let (a, b) = (named("a"), named("b"));
    let mut settings = service(Frontend::Tcp, &[a, b]);
    settings.policy.draining = Some(Duration::from_millis(200));
    let mut setting = Setting::new(settings);
    let mut clients: Vec<_> = (0..2).map(|_| setting.connect()).collect();
    clients.sort_by_key(|client| greeting(&mut &*client).expect("a greeting"));
    setting.set_backends(&[b]);
    assert_eq!(setting.taker().expect("a backend"), "b");
    assert!(is_closed(&mut clients[0]));
    assert_eq!(exchange(&mut clients[1], "hello").expect("an echo"), "hello");
}

#[test]
fn without_a_time_they_are_left_alone() {
    let (a, b) = (named("a"), named("b"));
    let mut setting = Setting::new(service(Frontend::Tcp, &[a]));
    let mut client = setting.connect();
    greeting(&mut client).expect("a greeting");
    setting.set_backends(&[b]);
    assert_eq!(setting.taker().expect("a backend"), "b");
    assert_eq!(exchange(&mut client, "hello").expect("an echo"), "hello");
}

#[test]
fn connections_of_a_service_that_is_gone_end_like_those() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.policy.draining = Some(Duration::from_millis(100));
    let setting = Setting::new(settings);
    let mut client = setting.connect();
    greeting(&mut client).expect("a greeting");
    setting.edge.apply(&edge::settings::Settings::new());
    assert!(is_closed(&mut client));
    wait_until("nobody listens", || connect(setting.address()).is_err());
}

#[test]
fn draining_waits_for_connections_to_end() {
    let setting = Setting::new(service(Frontend::Tcp, &[named("a")]));
    let mut client = setting.connect();
    greeting(&mut client).expect("a greeting");
    let address = setting.address();
    let talking = std::thread::spawn(move || {
        wait_until("nobody listens", || connect(address).is_err());
        let heard = exchange(&mut client, "my last words").expect("an echo");
        client.shutdown(std::net::Shutdown::Write).expect("ended");
        client.read_to_end(&mut Vec::new()).expect("it ends in order");
        heard
    });
    runtime().block_on(setting.edge.drain(PATIENCE));
    assert_eq!(setting.metric("portolan_edge_connections", ""), Some(0));
    assert_eq!(talking.join().expect("it spoke"), "my last words");
}

#[test]
fn draining_ends_what_does_not_end() {
    let setting = Setting::new(service(Frontend::Tcp, &[named("a")]));
    let mut client = setting.connect();
    greeting(&mut client).expect("a greeting");
    runtime().block_on(setting.edge.drain(Duration::from_millis(50)));
    assert!(is_closed(&mut client));
}
