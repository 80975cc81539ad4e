//! Services whose bandwidth is bound.

use std::io::{Read, Write};

use edge::settings::{Frontend, Limits};

use crate::setting::{Setting, named, service, wait_until};
use crate::udp;

#[test]
fn streams_that_take_turns_pass_whole() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.policy.limits.received_bytes_per_second = 4_000_000;
    settings.policy.limits.sent_bytes_per_second = 8_000_000;
    let setting = Setting::new(settings);
    let clients: Vec<_> = (0..4_u8)
        .map(|number| {
            let mut client = setting.connect();
            std::thread::spawn(move || {
                let words: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8 ^ number).collect();
                let mut writer = client.try_clone().expect("a clone");
                let said = words.clone();
                let writing = std::thread::spawn(move || {
                    writer.write_all(&said).expect("written");
                    writer.shutdown(std::net::Shutdown::Write).expect("ended");
                });
                let mut heard = Vec::new();
                client.read_to_end(&mut heard).expect("read to the end");
                writing.join().expect("written");
                assert!(heard == [&b"a\n"[..], &words].concat(), "{} bytes", heard.len());
            })
        })
        .collect();
    for client in clients {
        client.join().expect("all of it");
    }
}

#[test]
fn datagrams_beyond_it_are_lost_and_counted() {
    lose_one(|limits| &mut limits.received_bytes_per_second);
}

#[test]
fn so_are_answers() {
    lose_one(|limits| &mut limits.sent_bytes_per_second);
}

#[test]
fn and_both_where_they_share_one() {
    lose_one(|limits| &mut limits.both_bytes_per_second);
}

/// Sends until one is lost, where a direction has a bound.
fn lose_one(bound: impl Fn(&mut Limits) -> &mut u64) {
    let mut settings = service(Frontend::Udp, &[udp::named("a")]);
    *bound(&mut settings.policy.limits) = 1_000;
    let setting = Setting::new(settings);
    let client = udp::client(&setting);
    assert_eq!(udp::ask(&client, "x").expect("an answer"), "a x");
    wait_until("one is lost", || {
        client.send(&[0; 1_000]).expect("sent");
        setting.metric("portolan_edge_refused_total", "bandwidth") >= Some(1)
    });
}
