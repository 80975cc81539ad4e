use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

fn addresses(count: u8) -> Vec<SocketAddr> {
    (0..count)
        .map(|number| SocketAddr::from(([10, 0, 0, number], 8080)))
        .collect()
}

fn chosen_among(balance: Balance, standings: &[Option<Rating>], clients: &[u32]) -> Vec<Option<usize>> {
    let mut choice = Choice::default();
    choice.set(balance, &addresses(standings.len() as u8));
    clients
        .iter()
        .map(|client| {
            let client = IpAddr::from(Ipv4Addr::from_bits(*client));
            choice.choose(client, standings.len(), |number| standings[number])
        })
        .collect()
}

const USABLE: Option<Rating> = Some(Rating {
    rank: Rank::BEST,
    open_connections_and_requests: 0,
});

#[test]
fn rank_follows_conditions() {
    let best = Condition {
        is_ready: true,
        is_serving_while_terminating: false,
        is_healthy: true,
        is_ejected: false,
        is_in_preferred_zone: true,
    };
    let far = Condition {
        is_in_preferred_zone: false,
        ..best
    };
    let terminating = Condition {
        is_ready: false,
        is_serving_while_terminating: true,
        ..best
    };
    let ejected = Condition {
        is_ejected: true,
        ..best
    };
    let unhealthy = Condition {
        is_healthy: false,
        ..best
    };
    let unusable = Condition {
        is_ready: false,
        ..best
    };
    let in_order = [best, far, terminating, ejected, unhealthy].map(Rank::of);
    assert!(in_order.is_sorted_by(|a, b| a < b), "{in_order:?}");
    assert_eq!(in_order[0], Some(Rank::BEST));
    assert_eq!(
        in_order.map(|rank| rank.is_some_and(Rank::is_usable)),
        [true, true, false, false, false]
    );
    assert_eq!(Rank::of(unusable), None);
}

#[test]
fn round_robin_is_fair_beside_an_unusable_backend() {
    let chosen = chosen_among(Balance::RoundRobin, &[USABLE, None, USABLE], &[1; 6]);
    assert_eq!(chosen, [0, 2, 0, 2, 0, 2].map(Some));
}

#[test]
fn least_connections_chooses_equals_in_turn() {
    let busy = |open_connections_and_requests| {
        Some(Rating {
            rank: Rank::BEST,
            open_connections_and_requests,
        })
    };
    let chosen = chosen_among(Balance::LeastConnections, &[busy(3), busy(1), busy(1)], &[1; 4]);
    assert_eq!(chosen, [1, 2, 1, 2].map(Some));
}

#[test]
fn maglev_moves_only_clients_of_a_removed_backend() {
    let clients: Vec<u32> = (0..2_000).map(|number| number * 7_919).collect();
    let before = chosen_among(Balance::Maglev, &[USABLE; 8], &clients);
    let mut standings = [USABLE; 8];
    standings[3] = None;
    let after = chosen_among(Balance::Maglev, &standings, &clients);
    for (before, after) in before.iter().zip(&after) {
        match before {
            Some(3) => assert_ne!(*after, Some(3)),
            other => assert_eq!(after, other),
        }
    }
    let mut shares = BTreeMap::<usize, usize>::new();
    before
        .iter()
        .flatten()
        .for_each(|number| *shares.entry(*number).or_default() += 1);
    assert!(
        shares.len() == 8 && shares.values().all(|share| (150..350).contains(share)),
        "{shares:?}"
    );
}

fn any_standing() -> impl Strategy<Value = Option<Rating>> {
    let condition = any::<(bool, bool, bool, bool, bool)>().prop_map(|(a, b, c, d, e)| Condition {
        is_ready: a,
        is_serving_while_terminating: b,
        is_healthy: c,
        is_ejected: d,
        is_in_preferred_zone: e,
    });
    (condition, 0..5_usize).prop_map(|(condition, open_connections_and_requests)| {
        Rank::of(condition).map(|rank| Rating {
            rank,
            open_connections_and_requests,
        })
    })
}

fn any_balance() -> impl Strategy<Value = Balance> {
    prop_oneof![
        Just(Balance::RoundRobin),
        Just(Balance::LeastConnections),
        Just(Balance::Maglev)
    ]
}

proptest! {
    #[test]
    fn chooses_the_lowest_rank_if_any(
        standings in prop::collection::vec(any_standing(), 0..12),
        balance in any_balance(),
        clients in prop::collection::vec(any::<u32>(), 1..20),
    ) {
        let lowest = standings.iter().flatten().map(|standing| standing.rank).min();
        for chosen in chosen_among(balance, &standings, &clients) {
            let rank = chosen.and_then(|number| standings[number]).map(|standing| standing.rank);
            prop_assert_eq!(rank, lowest);
        }
    }

    #[test]
    fn maglev_keeps_clients_at_their_backend(standings in prop::collection::vec(any_standing(), 1..12), client: u32) {
        let chosen = chosen_among(Balance::Maglev, &standings, &[client, client ^ 1, client]);
        prop_assert_eq!(chosen[0], chosen[2]);
    }

    #[test]
    fn round_robin_gives_the_lowest_rank_equal_shares(
        standings in prop::collection::vec(prop_oneof![Just(USABLE), Just(None)], 1..12),
        rounds in 1..5_usize,
    ) {
        let usable = standings.iter().flatten().count();
        let chosen = chosen_among(Balance::RoundRobin, &standings, &vec![1; usable * rounds]);
        for (number, standing) in standings.iter().enumerate() {
            let turns = chosen.iter().filter(|chosen| **chosen == Some(number)).count();
            prop_assert_eq!(turns, if standing.is_some() { rounds } else { 0 });
        }
    }
}
