//! Services with a bandwidth limit.

use std::io::{Read, Write};

use edge::settings::{Frontend, Limits};

use crate::fixture::{Fixture, named, service, wait_until};
use crate::udp;

#[test]
fn throttled_streams_arrive_complete() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.policy.limits.received_bytes_per_second = 4_000_000;
    settings.policy.limits.sent_bytes_per_second = 8_000_000;
    let fixture = Fixture::new(settings);
    let clients: Vec<_> = (0..4_u8)
        .map(|number| {
            let mut client = fixture.connect();
            std::thread::spawn(move || {
                let payload: Vec<u8> = (0..200_000_u32)
                    .map(|index| (index % 251) as u8 ^ number)
                    .collect();
                let mut writer = client.try_clone().expect("a clone");
                let sent = payload.clone();
                let writing = std::thread::spawn(move || {
                    writer.write_all(&sent).expect("the data is written");
                    writer
                        .shutdown(std::net::Shutdown::Write)
                        .expect("the end of the connection");
                });
                let mut received = Vec::new();
                client.read_to_end(&mut received).expect("data until the end");
                writing.join().expect("the data is written");
                assert!(
                    received == [&b"a\n"[..], &payload].concat(),
                    "{} bytes",
                    received.len()
                );
            })
        })
        .collect();
    for client in clients {
        client.join().expect("the complete data");
    }
}

#[test]
fn excess_datagrams_are_dropped_and_counted() {
    lose_one(|limits| &mut limits.received_bytes_per_second);
}

#[test]
fn excess_responses_are_dropped_and_counted() {
    lose_one(|limits| &mut limits.sent_bytes_per_second);
}

#[test]
fn directions_with_a_common_limit_drop_together() {
    lose_one(|limits| &mut limits.both_bytes_per_second);
}

/// Sends datagrams until one is dropped, with a limit of one direction.
fn lose_one(bound: impl Fn(&mut Limits) -> &mut u64) {
    let mut settings = service(Frontend::Udp, &[udp::named("a")]);
    *bound(&mut settings.policy.limits) = 1_000;
    let fixture = Fixture::new(settings);
    let client = udp::client(&fixture);
    assert_eq!(udp::request(&client, "x").expect("a response"), "a x");
    wait_until("one is lost", || {
        client.send(&[0; 1_000]).expect("the data is sent");
        fixture.metric("portolan_edge_refused_total", "bandwidth") >= Some(1)
    });
}
