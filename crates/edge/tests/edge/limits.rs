//! Limits of clients, and source ranges.

use std::net::TcpStream;
use std::sync::Arc;

use edge::settings::{Frontend, Listener, ServiceName, Settings};
use edge::{Options, Shares};

use crate::fixture::{Fixture, connect, exchange, free_port, greeting, name, named, service, wait_until};

#[test]
fn limits_connections_of_a_service() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.policy.limits.connections_max = 2;
    let mut fixture = Fixture::new(settings);
    let mut first = fixture.connect();
    let mut second = fixture.connect();
    greeting(&mut first).expect("a greeting");
    greeting(&mut second).expect("a greeting");
    assert!(fixture.chosen_backend().is_err());
    assert_eq!(exchange(&mut first, "unharmed").expect("an echo"), "unharmed");
    drop(second);
    wait_until("there is room again", || fixture.chosen_backend().is_ok());
    fixture.service.policy.limits.connections_max = 0;
    fixture.apply();
    let many: Vec<_> = (0..10).map(|_| fixture.connect()).collect();
    for mut stream in many {
        greeting(&mut stream).expect("a greeting");
    }
    // The client may see the refusal before it is counted.
    wait_until("the refusal is counted", || {
        fixture.metric("portolan_edge_refused_total", "service_connections") >= Some(1)
    });
}

#[test]
fn limits_connection_rate_of_a_client() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.policy.limits.connections_per_second = 3;
    let fixture = Fixture::new(settings);
    let all = 40;
    let taken = (0..all).filter(|_| fixture.chosen_backend().is_ok()).count();
    assert!((3..all).contains(&taken), "{taken} of {all}");
    // The client may see the refusal before it is counted.
    let refused = || fixture.metric("portolan_edge_refused_total", "reason=\"rate\"");
    wait_until("every refusal is counted", || {
        refused() == Some((all - taken) as u64)
    });
}

#[test]
fn refuses_clients_outside_of_the_source_ranges() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.policy.source_ranges = vec!["192.0.2.0/24".parse().expect("a range")];
    let mut fixture = Fixture::new(settings);
    assert!(fixture.chosen_backend().is_err());
    fixture
        .service
        .policy
        .source_ranges
        .insert(0, "127.0.0.0/8".parse().expect("a range"));
    fixture.apply();
    assert_eq!(fixture.chosen_backend().expect("a backend"), "a");
    assert_eq!(
        fixture.metric("portolan_edge_refused_total", "source_range"),
        Some(1)
    );
}

#[test]
fn idle_flood_leaves_connections_for_another_service() {
    let options = Options {
        connections_max: 40,
        shares: Shares {
            service_percent: 50,
            client_percent: 100,
        },
        ..Options::default()
    };
    let fixture = Fixture::with(options, service(Frontend::Tcp, &[named("a")]));
    let mut other = service(Frontend::Tcp, &[named("b")]);
    other.listeners[0].port = free_port(false);
    let other_address = (other.addresses[0], other.listeners[0].port).into();
    // The test reads the first line of a metric, so the other Service comes after the first one.
    let other_name = ServiceName {
        name: "web-2".into(),
        ..name()
    };
    let both = [(name(), fixture.service.clone()), (other_name, other)];
    let both = both.map(|(name, service)| (name, Arc::new(service)));
    fixture.edge.apply(&Settings::from(both));

    let flood: Vec<TcpStream> = (0..60).filter_map(|_| connect(fixture.address()).ok()).collect();
    let refused = || {
        fixture
            .metric("portolan_edge_refused_total", "service_share")
            .unwrap_or(0)
    };
    wait_until("the flood meets its bound", || refused() >= 40);
    for _ in 0..5 {
        let mut stream = connect(other_address).expect("an accepted connection");
        assert_eq!(greeting(&mut stream).expect("a backend"), "b");
    }
    drop(flood);
    wait_until("there is room again", || fixture.chosen_backend().is_ok());
}

#[test]
fn limits_connections_of_a_client() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.policy.limits.connections_per_client = 2;
    let fixture = Fixture::new(settings);
    let mut held = [fixture.connect(), fixture.connect()];
    for stream in &mut held {
        greeting(stream).expect("a greeting");
    }
    assert!(fixture.chosen_backend().is_err());
    // The client may see the refusal before it is counted.
    wait_until("the refusal is counted", || {
        fixture.metric("portolan_edge_refused_total", "client_connections") >= Some(1)
    });
    drop(held);
    wait_until("there is room again", || fixture.chosen_backend().is_ok());
}

/// A user with the right to write a Service would otherwise take all descriptors of the process.
#[test]
fn listens_at_256_ports_of_a_service_at_most() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    let first = settings.listeners[0].clone();
    // Ports of the kernel's own choice may be among them; those have a fault, too, and are none of the surplus.
    settings.listeners = (20_000..40_000)
        .map(|port| Listener {
            port,
            ..first.clone()
        })
        .collect();
    let fixture = Fixture::new(settings);
    assert_eq!(fixture.edge.status().len(), 256);
    let faults = fixture.edge.faults();
    let surplus = |text: String| text.contains("expected at most 256 ports of a Service, found 20000");
    let found = faults
        .borrow()
        .iter()
        .any(|(key, faults)| key.port == 20_256 && faults.iter().any(|fault| surplus(fault.to_string())));
    assert!(found, "{:?}", faults.borrow());
}
