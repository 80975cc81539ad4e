use std::collections::HashSet;

use api::object::{ObjectKey, Protocol};
use plan::{Backend, Family, PortKey};

use super::*;

fn at(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 244, 0, number], 80))
}

fn client(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number], 40_000))
}

fn port(endpoints: &[u8], scheduler: Scheduler, affinity_seconds: Option<u32>) -> ServicePortPlan {
    let backend = |number: &u8| Backend {
        address: at(*number),
        can_be_local: false,
    };
    ServicePortPlan {
        is_range: false,
        key: PortKey {
            service: ObjectKey::new("ns", "a"),
            port: "".into(),
            protocol: Protocol::Tcp,
            family: Family::V4,
        },
        cluster: endpoints.iter().map(backend).collect(),
        local: Vec::new(),
        serving: Vec::new(),
        scheduler,
        drain_seconds: None,
        connection_age_max_seconds: None,
        rebalance_percent: None,
        affinity_seconds,
        serving_nodes: None,
        frontends: Vec::new(),
    }
}

fn balance(endpoints: &[u8], scheduler: Scheduler, affinity_seconds: Option<u32>) -> Balancer {
    let mut balance = Balancer::default();
    balance.set(
        &port(endpoints, scheduler, affinity_seconds),
        EndpointSet::Cluster,
    );
    balance
}

fn chosen(balance: &mut Balancer, from: u8, random: u64) -> SocketAddr {
    balance
        .choose(client(from), &[], Instant::now(), random)
        .unwrap()
        .address
}

#[test]
fn round_robin_selects_every_endpoint() {
    let mut balance = balance(&[1, 2, 3], Scheduler::RoundRobin, None);
    let turns: HashSet<SocketAddr> = (0..3).map(|_| chosen(&mut balance, 1, 0)).collect();
    assert_eq!(turns.len(), 3);
}

#[test]
fn selects_least_loaded_endpoint() {
    let mut balance = balance(&[1, 2, 3], Scheduler::LeastConnections, None);
    let mut open: Vec<(SocketAddr, ConnectionCount)> = (0..3)
        .map(|random| {
            let endpoint = balance.choose(client(1), &[], Instant::now(), random).unwrap();
            (endpoint.address, endpoint.count_connection())
        })
        .collect();
    let all: HashSet<SocketAddr> = open.iter().map(|(address, _)| *address).collect();
    assert_eq!(all.len(), 3, "each has one");
    let (first, one) = open.remove(0);
    drop(one);
    for random in 0..3 {
        assert_eq!(chosen(&mut balance, 1, random), first);
    }
}

#[test]
fn maglev_keeps_most_clients_when_endpoint_leaves() {
    let mut balance = balance(&[1, 2, 3, 4], Scheduler::Maglev, None);
    let before: Vec<SocketAddr> = (0..200).map(|from| chosen(&mut balance, from, 0)).collect();
    balance.set(&port(&[1, 2, 3], Scheduler::Maglev, None), EndpointSet::Cluster);
    let moved = (0..200)
        .zip(&before)
        .filter(|(from, before)| **before != at(4) && chosen(&mut balance, *from, 0) != **before);
    assert!(moved.count() < 40, "few of the 150 that could stay move");
    assert_eq!(before.iter().collect::<HashSet<_>>().len(), 4);
}

#[test]
fn tried_endpoints_are_excluded() {
    let all = [
        Scheduler::Random,
        Scheduler::RoundRobin,
        Scheduler::LeastConnections,
        Scheduler::Maglev,
    ];
    for scheduler in all {
        let mut balance = balance(&[1, 2, 3], scheduler, Some(10));
        let mut tried = Vec::new();
        for random in 0..3 {
            tried.push(
                balance
                    .choose(client(1), &tried, Instant::now(), random)
                    .unwrap()
                    .address,
            );
        }
        assert_eq!(tried.iter().collect::<HashSet<_>>().len(), 3, "{scheduler:?}");
        assert!(balance.choose(client(1), &tried, Instant::now(), 0).is_none());
        assert_eq!(
            chosen(&mut balance, 1, 0),
            tried[2],
            "the client stays with the last"
        );
    }
}

#[test]
fn affinity_lasts_until_timeout_or_endpoint_leaves() {
    let mut balance = balance(&[1, 2, 3], Scheduler::RoundRobin, Some(10));
    let start = Instant::now();
    let at_second = |balance: &mut Balancer, seconds: u64| {
        let now = start + Duration::from_secs(seconds);
        balance.choose(client(1), &[], now, 0).unwrap().address
    };
    let first = at_second(&mut balance, 0);
    assert_eq!(at_second(&mut balance, 9), first);
    assert_eq!(at_second(&mut balance, 18), first, "each connection counts");
    let other = at_second(&mut balance, 28);
    assert_ne!(other, first);
    let candidates: Vec<u8> = [1, 2, 3]
        .into_iter()
        .filter(|number| at(*number) != other)
        .collect();
    balance.set(
        &port(&candidates, Scheduler::RoundRobin, Some(10)),
        EndpointSet::Cluster,
    );
    assert_ne!(at_second(&mut balance, 29), other);
}

#[test]
fn affinities_are_bounded() {
    let mut balance = balance(&[1], Scheduler::Random, Some(10));
    let now = Instant::now();
    for number in 0..AFFINITIES_MAX as u32 + 10 {
        let client = SocketAddr::from((std::net::Ipv4Addr::from(number), 1));
        assert!(balance.choose(client, &[], now, 0).is_some());
    }
    assert_eq!(balance.clients.len(), AFFINITIES_MAX);
    balance
        .choose(client(1), &[], now + Duration::from_secs(11), 0)
        .unwrap();
    assert_eq!(balance.clients.len(), 1, "those that have expired make room");
}

/// Clients with many source addresses, each with one connection, do not make each new one read the full table.
#[test]
fn full_table_is_searched_once_per_interval() {
    let mut balance = balance(&[1], Scheduler::Random, Some(10));
    let start = Instant::now();
    let connect = |balance: &mut Balancer, number: u32, seconds: u64| {
        let client = SocketAddr::from((std::net::Ipv4Addr::from(number), 1));
        let now = start + Duration::from_secs(seconds);
        balance.choose(client, &[], now, 0).unwrap();
        (balance.clients.len(), balance.swept)
    };
    let maximum = AFFINITIES_MAX as u32;
    for number in 1..maximum {
        connect(&mut balance, number, 0);
    }
    assert_eq!(connect(&mut balance, maximum, 9), (AFFINITIES_MAX, None));
    let searched = Some(start + Duration::from_secs(9));
    for number in 1..10 {
        let result = connect(&mut balance, maximum + number, 9);
        assert_eq!(result, (AFFINITIES_MAX, searched));
    }
    let searched = Some(start + Duration::from_secs(10));
    assert_eq!(connect(&mut balance, maximum + 1, 10), (2, searched));
}
