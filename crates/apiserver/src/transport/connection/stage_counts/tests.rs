use std::net::IpAddr;

use super::*;

fn source(text: &str) -> Source {
    let address: IpAddr = text.parse().unwrap();
    Source::from(address)
}

/// Number of connections of one address that reach a stage through the handshake.
fn open(counts: &mut StageCounts, from: Source, to: Stage, count: u32) -> u32 {
    let opened = (0..count).filter(|_| {
        if counts.enter(from).is_err() {
            return false;
        }
        let has_advanced = counts.advance(from, Stage::Handshake, to).is_ok();
        if !has_advanced {
            counts.leave(from, Stage::Handshake);
        }
        has_advanced
    });
    opened.count() as u32
}

#[test]
fn limits_each_address_in_each_stage() {
    let mut counts = StageCounts::new(1_000);
    let one = source("192.0.2.1");
    assert_eq!((0..5_000).filter(|_| counts.enter(one).is_ok()).count(), 63);
    for _ in 0..63 {
        counts.leave(one, Stage::Handshake);
    }
    assert_eq!(open(&mut counts, one, Stage::Unauthenticated, 5_000), 250);
    assert_eq!(open(&mut counts, one, Stage::WithToken, 5_000), 1_000);
    assert_eq!(open(&mut counts, one, Stage::WithCertificate, 5_000), 1_000);
    assert_eq!(open(&mut counts, one, Stage::Exempt, 5_000), 5_000);
    assert_eq!(
        open(&mut counts, source("192.0.2.2"), Stage::Unauthenticated, 1),
        1
    );
}

#[test]
fn flood_without_certificates_leaves_room_for_certificates() {
    let mut counts = StageCounts::new(1_000);
    for number in 0..200_u8 {
        let from = source(&format!("192.0.2.{number}"));
        open(&mut counts, from, Stage::Unauthenticated, 1_000);
        open(&mut counts, from, Stage::WithToken, 1_000);
    }
    assert_eq!(counts.open(Stage::Unauthenticated), UNAUTHENTICATED_MAX);
    assert_eq!(counts.open(Stage::WithToken), WITH_TOKEN_MAX);
    for number in 0..9 {
        let node = source(&format!("198.51.100.{number}"));
        assert_eq!(open(&mut counts, node, Stage::WithCertificate, 1_000), 1_000);
    }
}

#[test]
fn token_moves_a_connection_to_the_larger_pool() {
    let mut counts = StageCounts::new(8);
    let one = source("192.0.2.1");
    assert_eq!(open(&mut counts, one, Stage::Unauthenticated, 9), 2);
    counts
        .advance(one, Stage::Unauthenticated, Stage::WithToken)
        .unwrap();
    assert_eq!(open(&mut counts, one, Stage::Unauthenticated, 9), 1);
    counts.leave(one, Stage::WithToken);
    assert_eq!(counts.open(Stage::WithToken), 0);
    assert_eq!(counts.open(Stage::Handshake), 0);
}

#[test]
fn stage_limits_hold_without_an_address_limit() {
    let mut counts = StageCounts::new(0);
    assert_eq!(
        open(&mut counts, source("192.0.2.1"), Stage::Unauthenticated, 5_000),
        UNAUTHENTICATED_MAX
    );
}

#[test]
fn limits_all_connections_together() {
    let mut counts = StageCounts::new(0);
    assert_eq!(
        open(&mut counts, source("192.0.2.1"), Stage::Exempt, 30_000),
        CONNECTIONS_MAX
    );
    assert_eq!(counts.enter(source("192.0.2.2")), Err(ExceededLimit::Total));
}

#[test]
fn stages_are_in_the_order_of_their_indexes() {
    assert!(
        Stage::ALL
            .iter()
            .enumerate()
            .all(|(index, stage)| *stage as usize == index)
    );
}
