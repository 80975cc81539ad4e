//! Relay of TCP connections: both directions, choice of backends, refusals.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use edge::Options;
use edge::settings::{Balance, Frontend, Stickiness};
use socket2::SockRef;

use crate::fixture::{Fixture, backend, echo, exchange, greeting, is_closed, named, service, unused_address};

#[test]
fn relays_both_directions_until_each_ends() {
    let fixture = Fixture::new(service(Frontend::Tcp, &[named("a")]));
    let mut client = fixture.connect();
    assert_eq!(greeting(&mut client).expect("a greeting"), "a");
    assert_eq!(exchange(&mut client, "hello").expect("an echo"), "hello");
    client.write_all(b"last words").expect("the data is written");
    client
        .shutdown(Shutdown::Write)
        .expect("the end of the connection");
    let mut rest = String::new();
    client.read_to_string(&mut rest).expect("data until the end");
    assert_eq!(rest, "last words");
    drop(client);
    crate::fixture::wait_until("nothing is open", || {
        fixture.metric("portolan_edge_connections", "") == Some(0)
    });
    assert_eq!(fixture.metric("portolan_edge_connections_total", ""), Some(1));
    assert_eq!(fixture.metric("portolan_edge_received_bytes_total", ""), Some(15));
    assert_eq!(fixture.metric("portolan_edge_sent_bytes_total", ""), Some(17));
}

#[test]
fn relays_bulk_data_in_both_directions() {
    let fixture = Fixture::new(service(Frontend::Tcp, &[named("a")]));
    let mut client = fixture.connect();
    greeting(&mut client).expect("a greeting");
    assert_echoed(&mut client, 24 << 20);
}

/// Sends a number of bytes at once, and reads their echo.
fn assert_echoed(client: &mut TcpStream, bytes: usize) {
    let words: Vec<u8> = (0..bytes).map(|number| (number % 249) as u8).collect();
    let mut writer = client.try_clone().expect("a second handle");
    let sent = words.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&sent).expect("the data is written");
        writer
            .shutdown(Shutdown::Write)
            .expect("the end of the connection");
    });
    let mut received = Vec::new();
    client.read_to_end(&mut received).expect("data until the end");
    writing.join().expect("a written file");
    assert!(received == words, "{} of {} bytes", received.len(), words.len());
}

#[test]
fn changed_zone_applies_to_new_connections() {
    let mut settings = service(Frontend::Tcp, &[named("a"), named("b")]);
    settings.policy.is_cross_zone = false;
    for (backend, zone) in settings.listeners[0].backends.iter_mut().zip(["east", "west"]) {
        backend.zone = Some(zone.into());
    }
    let options = Options {
        zone: Some("east".into()),
        ..Options::default()
    };
    let fixture = Fixture::with(options, settings);
    let takers = || {
        (0..4)
            .map(|_| fixture.chosen_backend().expect("a backend"))
            .collect::<Vec<_>>()
    };
    assert_eq!(takers(), ["a"; 4]);
    let mut client = fixture.connect();
    greeting(&mut client).expect("a greeting");
    fixture.edge.set_zone(Some("west".into()));
    assert_eq!(takers(), ["b"; 4]);
    // Later settings take the zone into account.
    fixture.apply();
    assert_eq!(takers(), ["b"; 4]);
    assert_eq!(exchange(&mut client, "hello").expect("an echo"), "hello");
    fixture.edge.set_zone(None);
    let mut both = takers();
    both.sort_unstable();
    assert_eq!(both, ["a", "a", "b", "b"]);
}

#[test]
fn round_robin_uses_backends_in_turn() {
    let fixture = Fixture::new(service(Frontend::Tcp, &[named("a"), named("b"), named("c")]));
    let mut takers = BTreeMap::<String, usize>::new();
    for _ in 0..9 {
        *takers
            .entry(fixture.chosen_backend().expect("a backend"))
            .or_default() += 1;
    }
    assert_eq!(takers.into_values().collect::<Vec<_>>(), [3, 3, 3]);
}

#[test]
fn least_connections_selects_the_idlest_backend() {
    let mut settings = service(Frontend::Tcp, &[named("a"), named("b")]);
    settings.policy.balance = Balance::LeastConnections;
    let fixture = Fixture::new(settings);
    let mut first = fixture.connect();
    let home = greeting(&mut first).expect("a greeting");
    let mut second = fixture.connect();
    let other = greeting(&mut second).expect("a greeting");
    assert_ne!(home, other);
    drop(second);
    let other_is_free = || fixture.metric("portolan_edge_connections", "") == Some(1);
    crate::fixture::wait_until("the second is closed", other_is_free);
    assert_eq!(fixture.chosen_backend().expect("a backend"), other);
}

#[test]
fn client_affinity_keeps_the_backend() {
    let mut settings = service(Frontend::Tcp, &[named("a"), named("b"), named("c")]);
    settings.policy.stickiness = Stickiness::Source {
        timeout: Duration::from_secs(600),
    };
    let mut fixture = Fixture::new(settings);
    let home = fixture.chosen_backend().expect("a backend");
    for _ in 0..6 {
        assert_eq!(fixture.chosen_backend().expect("a backend"), home);
    }
    fixture.service.policy.stickiness = Stickiness::None;
    fixture.service.policy.balance = Balance::Maglev;
    fixture.apply();
    let home = fixture.chosen_backend().expect("a backend");
    for _ in 0..6 {
        assert_eq!(fixture.chosen_backend().expect("a backend"), home);
    }
}

#[test]
fn refused_connection_goes_to_another_backend() {
    let fixture = Fixture::new(service(
        Frontend::Tcp,
        &[unused_address(), named("good"), unused_address()],
    ));
    for _ in 0..12 {
        assert_eq!(fixture.chosen_backend().expect("a backend"), "good");
    }
    assert_eq!(
        fixture.metric("portolan_edge_refused_total", "no_backend"),
        Some(0)
    );
}

#[test]
fn initial_data_goes_to_another_backend_after_a_refusal() {
    let fixture = Fixture::new(service(Frontend::Tcp, &[unused_address(), backend(echo)]));
    for words in ["one", "two", "three", "four", "five", "six"] {
        let mut client = fixture.connect();
        assert_eq!(exchange(&mut client, words).expect("an echo"), words);
    }
}

#[test]
fn short_connections_end_with_their_backend() {
    // Connections to near backends reuse sockets of earlier ones.
    let backend = backend(|mut stream| {
        let mut word = [0];
        stream.read_exact(&mut word)?;
        match word {
            [b'r'] => SockRef::from(&stream).set_linger(Some(Duration::ZERO)),
            _ => stream.write_all(&word),
        }
    });
    let fixture = Fixture::new(service(Frontend::Tcp, &[backend]));
    for word in b"aabarracrrbcaaaarab".repeat(4) {
        let mut client = fixture.connect();
        client.write_all(&[word]).expect("the data is written");
        let mut received = Vec::new();
        let end = client.read_to_end(&mut received);
        match word {
            b'r' => assert_eq!(
                end.expect_err("a reset").kind(),
                std::io::ErrorKind::ConnectionReset
            ),
            _ => assert_eq!((end.expect("an end"), received), (1, vec![word])),
        }
    }
}

#[test]
fn client_reset_resets_the_backend() {
    let (ends, end) = mpsc::channel();
    let backend = backend(move |mut stream| {
        let mut words = [0; 2];
        stream.read_exact(&mut words)?;
        stream.write_all(&words)?;
        let ended = stream.read(&mut words).map_err(|error| error.kind());
        ends.send(ended).map_err(std::io::Error::other)
    });
    let fixture = Fixture::new(service(Frontend::Tcp, &[backend]));
    for breaks_off in [false, true, false, true, true, false] {
        let mut client = fixture.connect();
        assert_eq!(exchange(&mut client, "hi").expect("an echo"), "hi");
        if breaks_off {
            SockRef::from(&client)
                .set_linger(Some(Duration::ZERO))
                .expect("a truncated response");
        }
        drop(client);
        let expected = if breaks_off {
            Err(std::io::ErrorKind::ConnectionReset)
        } else {
            Ok(0)
        };
        assert_eq!(end.recv().expect("the end of the task"), expected);
    }
}

#[test]
fn long_initial_data_arrives_complete() {
    let fixture = Fixture::new(service(Frontend::Tcp, &[backend(echo)]));
    for bytes in [1 << 20, 70_000, 1 << 16] {
        assert_echoed(&mut fixture.connect(), bytes);
    }
}

#[test]
fn resets_clients_without_a_backend() {
    let fixture = Fixture::new(service(Frontend::Tcp, &[unused_address()]));
    let error = fixture.chosen_backend().expect_err("a reset");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    crate::fixture::wait_until("the connection is counted", || {
        fixture.metric("portolan_edge_refused_total", "no_backend") == Some(1)
    });
}

#[test]
fn closes_idle_connections() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.policy.idle_timeout = Duration::from_millis(50);
    let fixture = Fixture::new(settings);
    let mut client = fixture.connect();
    greeting(&mut client).expect("a greeting");
    assert!(is_closed(&mut client));
}

#[test]
fn half_closed_client_gets_the_response() {
    let slow = backend(|mut stream| {
        let mut question = String::new();
        stream.read_to_string(&mut question)?;
        stream.write_all(format!("you said {question}").as_bytes())
    });
    let fixture = Fixture::new(service(Frontend::Tcp, &[slow]));
    let mut client = fixture.connect();
    client.write_all(b"hello").expect("the data is written");
    client
        .shutdown(Shutdown::Write)
        .expect("the end of the connection");
    let mut response = String::new();
    client.read_to_string(&mut response).expect("data until the end");
    assert_eq!(response, "you said hello");
}

#[test]
fn settings_change_without_closing_the_listener() {
    let (a, b) = (named("a"), named("b"));
    let mut fixture = Fixture::new(service(Frontend::Tcp, &[a]));
    let mut early = fixture.connect();
    assert_eq!(greeting(&mut early).expect("a greeting"), "a");
    fixture.set_backends(&[b]);
    assert_eq!(fixture.chosen_backend().expect("a backend"), "b");
    assert_eq!(exchange(&mut early, "still here").expect("an echo"), "still here");
    fixture.service.listeners.clear();
    fixture.apply();
    crate::fixture::wait_until("no listener is left", || fixture_is_closed(&fixture));
    assert_eq!(exchange(&mut early, "even now").expect("an echo"), "even now");
}

fn fixture_is_closed(fixture: &Fixture) -> bool {
    fixture
        .edge
        .metrics()
        .lines()
        .all(|line| !line.starts_with("portolan_edge_connections{"))
}
