//! Faults of ports: addresses in use, or claimed by another Service.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use edge::settings::{Frontend, ServiceName, Settings};
use edge::{Fault, PortKey, Transport};

use crate::fixture::{Fixture, name, named, service, wait_until};

#[test]
fn address_in_use_is_a_fault_until_it_is_free() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let at = other.local_addr().expect("an address");
    settings.listeners[0].port = at.port();
    let fixture = Fixture::new(settings);
    let key = PortKey {
        service: name(),
        port: at.port(),
        transport: Transport::Tcp,
    };
    let faults = fixture.edge.faults();
    let observed = faults.borrow().get(&key).cloned().expect("a notification");
    let [
        Fault::CannotListen {
            address: observed_at, ..
        },
    ] = &observed[..]
    else {
        panic!("{observed:?}");
    };
    assert_eq!(*observed_at, at);
    assert!(
        observed[0]
            .to_string()
            .starts_with(&format!("cannot listen at {at}: Address already in use"))
    );
    drop(other);
    wait_until("the port listens", || faults.borrow().is_empty());
    assert_eq!(fixture.chosen_backend().expect("a backend"), "a");
}

#[test]
fn first_service_keeps_a_contested_address() {
    let fixture = Fixture::new(service(Frontend::Tcp, &[named("a")]));
    let mut late = fixture.service.clone();
    late.listeners[0].backends = service(Frontend::Tcp, &[named("b")]).listeners[0]
        .backends
        .clone();
    let late_name = ServiceName {
        namespace: "aaa".into(),
        name: "first-in-order".into(),
    };
    let both = Settings::from([
        (name(), Arc::new(fixture.service.clone())),
        (late_name.clone(), Arc::new(late.clone())),
    ]);
    fixture.edge.apply(&both);
    assert_eq!(fixture.chosen_backend().expect("a backend"), "a");
    let faults = fixture.edge.faults().borrow().clone();
    let key = PortKey {
        service: late_name.clone(),
        port: fixture.address().port(),
        transport: Transport::Tcp,
    };
    let observed = faults.get(&key).expect("a notification");
    assert!(
        observed[0].to_string().contains("Service shop/web listens there"),
        "{observed:?}"
    );
    fixture.edge.apply(&Settings::from([(late_name, Arc::new(late))]));
    assert!(fixture.edge.faults().borrow().is_empty());
    wait_until("the other has it", || {
        fixture.chosen_backend().is_ok_and(|taker| taker == "b")
    });
}

#[test]
fn listens_at_addresses_of_other_nodes() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.addresses = vec![
        [192, 0, 2, 77].into(),
        "2001:db8::77".parse().expect("an address"),
    ];
    let fixture = Fixture::new(settings);
    assert!(
        fixture.edge.faults().borrow().is_empty(),
        "{:?}",
        fixture.edge.faults().borrow()
    );
}
