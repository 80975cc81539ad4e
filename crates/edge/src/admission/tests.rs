use std::time::Duration;

use super::*;
use crate::edge_state::EdgeState;
use crate::port::{Port, PortSettings};
use crate::port_key::{PortKey, Transport};
use crate::settings::{self, BackendProtocol, Frontend, Listener, ServiceName, ServiceSettings};
use crate::sticky_cookie::{StickyKeys, StickySecrets};

/// Returns a Service with default settings.
pub(crate) fn service() -> ServiceSettings {
    ServiceSettings::new(vec![[127, 0, 0, 1].into()], Vec::new())
}

/// Returns a listener with `backends` ready backends.
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

fn port(settings: ServiceSettings) -> Port {
    port_with(settings, Shares::default())
}

/// Returns a port of a process with a limit of 100 connections.
fn port_with(settings: ServiceSettings, shares: Shares) -> Port {
    let key = PortKey {
        service: ServiceName {
            namespace: "shop".into(),
            name: "web".into(),
        },
        port: 443,
        transport: Transport::Tcp,
    };
    let settings = PortSettings {
        service: Arc::new(settings),
        listener: listener(Frontend::Tcp, 1),
        log: None,
        tls: None,
    };
    let connections = ProcessConnections::new(100, shares);
    let edge = EdgeState::new(None, connections, StickyKeys::new(&StickySecrets::default()))
        .expect("a TLS configuration");
    Port::new(key, settings, Arc::default(), Arc::new(edge))
}

#[test]
fn refuses_connections_beyond_the_limit_of_the_service() {
    let mut settings = service();
    settings.policy.limits.connections_max = 2;
    let port = port(settings);
    let first = port.permit().expect("a permit");
    let second = port.permit().expect("a permit");
    assert_eq!(port.permit().err(), Some(ConnectionRefusal::ServiceConnections));
    drop(first);
    assert!(port.permit().is_ok());
    drop(second);
    assert_eq!(port.admission.process.open(), 0);
    assert_eq!(port.admission.service.open.load(Ordering::Relaxed), 0);
}

#[test]
fn refuses_connections_beyond_the_limit_of_the_process() {
    let shares = Shares {
        service_percent: 100,
        client_percent: 100,
    };
    let port = port_with(service(), shares);
    let permits: Vec<ConnectionPermit> = (0..100).map_while(|_| port.permit().ok()).collect();
    assert_eq!(permits.len(), 100);
    assert_eq!(port.permit().err(), Some(ConnectionRefusal::ProcessConnections));
}

#[test]
fn admits_clients_by_source_range_and_rate() {
    let mut settings = service();
    settings.policy.source_ranges = vec!["192.0.2.0/24".parse().expect("a range")];
    settings.policy.limits.connections_per_second = 2;
    let port = port(settings);
    let inside: IpAddr = "::ffff:192.0.2.9".parse().expect("an address");
    let mut permit = port.permit().expect("a permit");
    let mut admit = |client| port.admit_client(client, &mut permit);
    assert_eq!(
        admit([198, 51, 100, 1].into()),
        Err(ConnectionRefusal::SourceRange)
    );
    assert_eq!(admit(inside), Ok(()));
    assert_eq!(admit(inside), Ok(()));
    assert_eq!(admit(inside), Err(ConnectionRefusal::Rate));
}

#[test]
fn addresses_of_an_ipv6_network_share_a_rate() {
    let mut settings = service();
    settings.policy.limits.connections_per_second = 2;
    let port = port(settings);
    let admit = |client: &str| {
        let mut permit = port.permit().expect("a permit");
        port.admit_client(client.parse().expect("an address"), &mut permit)
    };
    assert_eq!(admit("2001:db8::1"), Ok(()));
    assert_eq!(admit("2001:db8::2"), Ok(()));
    assert_eq!(admit("2001:db8::3"), Err(ConnectionRefusal::Rate));
    assert_eq!(admit("2001:db8:0:1::1"), Ok(()));
}

#[test]
fn finds_addresses_in_ranges() {
    let texts = [
        "10.0.0.0/8",
        "192.0.2.0/25",
        "192.0.2.130/32",
        "198.51.100.0/24",
        "2001:db8::/32",
        "fd00::/8",
    ];
    let ranges: [IpNet; 6] = texts.map(|text| text.parse().expect("a range"));
    let found = |address: &str| contain(&ranges, address.parse().expect("an address"));
    for inside in [
        "10.0.0.0",
        "10.255.255.255",
        "192.0.2.127",
        "192.0.2.130",
        "198.51.100.9",
        "2001:db8::1",
        "fdff::1",
    ] {
        assert!(found(inside), "{inside}");
    }
    for outside in [
        "9.255.255.255",
        "11.0.0.0",
        "192.0.2.128",
        "192.0.2.131",
        "198.51.101.0",
        "255.255.255.255",
        "::1",
        "2001:db9::",
        "fe80::1",
    ] {
        assert!(!found(outside), "{outside}");
    }
    assert!(!contain(&[], [10, 0, 0, 1].into()));
}

#[test]
fn refuses_connections_beyond_the_share_of_the_service() {
    let port = port(service());
    let permits: Vec<ConnectionPermit> = (0..100).map_while(|_| port.permit().ok()).collect();
    assert_eq!(permits.len(), 50);
    assert_eq!(port.permit().err(), Some(ConnectionRefusal::ServiceShare));
    drop(permits);
    assert!(port.permit().is_ok());
}

/// Otherwise, a tenant with many Services leaves almost no connections to others.
#[test]
fn services_of_a_namespace_leave_connections_to_others() {
    let process = port(service()).admission.process.clone();
    let permits_of_service = |namespace: &NamespaceLoad| {
        let load = Arc::new(ServiceLoad::in_namespace(namespace.clone()));
        let admission = Arc::new(Admission::new(process.clone(), load, Arc::default()));
        let permits = (0..100).map_while(|_| admission.permit(&Limits::default()).ok());
        permits.collect::<Vec<ConnectionPermit>>()
    };
    let [many, one] = [(); 2].map(|()| NamespaceLoad::default());
    let held: Vec<_> = (0..20).map(|_| permits_of_service(&many)).collect();
    let other = permits_of_service(&one);
    assert!(other.len() >= 16, "{}", other.len());
    drop((held, other));
    assert_eq!(many.load(Ordering::Relaxed), 0);
}

#[test]
fn refuses_connections_beyond_the_limit_of_the_client() {
    for (limit, expected) in [(0, 10), (3, 3), (20, 20)] {
        let mut settings = service();
        settings.policy.limits.connections_per_client = limit;
        let port = port(settings);
        let connect = |client: [u8; 4]| {
            let mut permit = port.permit()?;
            port.admit_client(client.into(), &mut permit).map(|()| permit)
        };
        let permits: Vec<ConnectionPermit> = (0..30).map_while(|_| connect([192, 0, 2, 1]).ok()).collect();
        assert_eq!(permits.len(), expected);
        assert_eq!(
            connect([192, 0, 2, 1]).err(),
            Some(ConnectionRefusal::ClientConnections)
        );
        assert!(connect([192, 0, 2, 2]).is_ok());
        drop(permits);
        assert!(connect([192, 0, 2, 1]).is_ok());
    }
}

#[test]
fn requests_count_for_the_shares_of_the_service_and_the_client() {
    let mut settings = service();
    settings.policy.limits.connections_max = 1;
    settings.policy.limits.connections_per_client = 1;
    let port = port(settings);
    let request = |client: u8| port.admission.permit_request([192, 0, 2, client].into());
    let connection = port.permit().expect("a permit");
    let of_one: Vec<RequestPermit> = (0..30).map_while(|_| request(1).ok()).collect();
    assert_eq!(of_one.len(), 10);
    assert_eq!(request(1).err(), Some(ConnectionRefusal::ClientConnections));
    let of_others: Vec<RequestPermit> = (2..100).map_while(|client| request(client).ok()).collect();
    assert_eq!(of_others.len(), 39);
    assert_eq!(request(100).err(), Some(ConnectionRefusal::ServiceShare));
    assert_eq!(port.permit().err(), Some(ConnectionRefusal::ServiceShare));
    drop((connection, of_one, of_others));
    assert_eq!(port.admission.process.open(), 0);
    assert_eq!(port.admission.service.requests.load(Ordering::Relaxed), 0);
}

#[test]
fn directions_without_own_limit_share_one_bucket() {
    let port = port(service());
    let when = |limits: Limits| {
        let now = Duration::from_secs(1);
        let reservations = port.admission.bandwidth(&limits);
        reservations
            .map(|reservation| reservation.map(|mut reservation| reservation.reserve(usize::MAX, now)))
    };
    assert_eq!(when(Limits::default()), [None, None]);
    let mut limits = Limits {
        both_bytes_per_second: 1_000_000,
        ..Limits::default()
    };
    // An idle Service may burst for 50 ms, of which a chunk takes 10.
    let at = |milliseconds| Some((10_000, Duration::from_millis(milliseconds)));
    assert_eq!(when(limits), [at(950), at(960)]);
    limits.sent_bytes_per_second = 1_000_000;
    assert_eq!(when(limits), [at(970), at(950)]);
}
