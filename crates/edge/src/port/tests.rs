use std::time::Duration;

use super::*;
use crate::http::cookie::StickySecrets;
use crate::settings::{self, BackendProtocol};

/// A Service that asks for nothing special.
pub(crate) fn service() -> ServiceSettings {
    ServiceSettings::new(vec![[127, 0, 0, 1].into()], Vec::new())
}

/// A port with so many ready backends.
pub(crate) fn listener(frontend: Frontend, backends: u8) -> Listener {
    let backends = (1..=backends).map(|number| settings::Backend::ready(([10, 0, 0, number], 8080).into()));
    Listener {
        name: "".into(),
        port: 443,
        frontend,
        backend_protocol: BackendProtocol::Tcp,
        backends: backends.collect(),
    }
}

fn port(settings: ServiceSettings) -> Arc<Port> {
    port_with(settings, Shares::default())
}

/// A port of a process that can bear 100 connections.
fn port_with(settings: ServiceSettings, shares: Shares) -> Arc<Port> {
    let key = PortKey {
        service: ServiceName {
            namespace: "shop".into(),
            name: "web".into(),
        },
        port: 443,
        transport: Transport::Tcp,
    };
    let current = Current {
        service: Arc::new(settings),
        listener: listener(Frontend::Tcp, 1),
        log: None,
        tls: None,
    };
    let shared = Shared::new(None, 100, shares, StickyKeys::new(&StickySecrets::default()))
        .expect("TLS can be set up");
    Arc::new(Port::new(key, current, Arc::default(), Arc::new(shared)))
}

#[test]
fn a_service_has_as_many_seats_as_it_asks_for() {
    let mut settings = service();
    settings.policy.limits.connections_max = 2;
    let port = port(settings);
    let first = port.seat().expect("a seat");
    let second = port.seat().expect("a seat");
    assert_eq!(port.seat().err(), Some(Refusal::ServiceConnections));
    drop(first);
    assert!(port.seat().is_ok());
    drop(second);
    assert_eq!(port.shared.open.load(Ordering::Relaxed), 0);
    assert_eq!(port.load.open.load(Ordering::Relaxed), 0);
}

#[test]
fn the_process_has_as_many_seats_as_it_can_bear() {
    let shares = Shares {
        service_percent: 100,
        client_percent: 100,
    };
    let port = port_with(service(), shares);
    let seats: Vec<Seat> = (0..100).map_while(|_| port.seat().ok()).collect();
    assert_eq!(seats.len(), 100);
    assert_eq!(port.seat().err(), Some(Refusal::ProcessConnections));
}

#[test]
fn clients_are_let_in_by_range_and_rate() {
    let mut settings = service();
    settings.policy.source_ranges = vec!["192.0.2.0/24".parse().expect("a range")];
    settings.policy.limits.connections_per_second = 2;
    let port = port(settings);
    let inside: IpAddr = "::ffff:192.0.2.9".parse().expect("an address");
    let mut seat = port.seat().expect("a seat");
    let mut admit = |client| port.admit(client, &mut seat);
    assert_eq!(admit([198, 51, 100, 1].into()), Err(Refusal::SourceRange));
    assert_eq!(admit(inside), Ok(()));
    assert_eq!(admit(inside), Ok(()));
    assert_eq!(admit(inside), Err(Refusal::Rate));
}

#[test]
fn a_service_has_no_more_than_its_share() {
    let port = port(service());
    let seats: Vec<Seat> = (0..100).map_while(|_| port.seat().ok()).collect();
    assert_eq!(seats.len(), 50);
    assert_eq!(port.seat().err(), Some(Refusal::ServiceShare));
    drop(seats);
    assert!(port.seat().is_ok());
}

#[test]
fn a_client_has_no_more_than_its_share_or_what_the_service_says() {
    for (own_bound, expected) in [(0, 10), (3, 3), (20, 20)] {
        let mut settings = service();
        settings.policy.limits.connections_per_client = own_bound;
        let port = port(settings);
        let enter = |client: [u8; 4]| {
            let mut seat = port.seat()?;
            port.admit(client.into(), &mut seat).map(|()| seat)
        };
        let seats: Vec<Seat> = (0..30).map_while(|_| enter([192, 0, 2, 1]).ok()).collect();
        assert_eq!(seats.len(), expected);
        assert_eq!(enter([192, 0, 2, 1]).err(), Some(Refusal::ClientConnections));
        assert!(enter([192, 0, 2, 2]).is_ok());
        drop(seats);
        assert!(enter([192, 0, 2, 1]).is_ok());
    }
}

#[test]
fn directions_without_a_bound_of_their_own_share_one() {
    let port = port(service());
    let when = |limits: Limits| {
        let now = Duration::from_secs(1);
        let turns = port.turns(&limits);
        turns.map(|turns| turns.map(|mut turns| turns.want(usize::MAX, now)))
    };
    assert_eq!(when(Limits::default()), [None, None]);
    let mut limits = Limits {
        both_bytes_per_second: 1_000_000,
        ..Limits::default()
    };
    // A Service that was silent has 50 ms ahead, of which a share takes 10.
    let at = |milliseconds| Some((10_000, Duration::from_millis(milliseconds)));
    assert_eq!(when(limits), [at(950), at(960)]);
    limits.sent_bytes_per_second = 1_000_000;
    assert_eq!(when(limits), [at(970), at(950)]);
}
