//! Faults of ports.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use edge::settings::{Frontend, ServiceName, Settings};
use edge::{Fault, PortKey, Transport};

use crate::setting::{Setting, name, named, service, wait_until};

#[test]
fn address_in_use_is_a_fault_until_it_is_free() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let at = other.local_addr().expect("an address");
    settings.listeners[0].port = at.port();
    let setting = Setting::new(settings);
    let key = PortKey {
        service: name(),
        port: at.port(),
        transport: Transport::Tcp,
    };
    let faults = setting.edge.faults();
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
    wait_until("it listens", || faults.borrow().is_empty());
    assert_eq!(setting.taker().expect("a backend"), "a");
}

#[test]
fn first_service_keeps_a_contested_address() {
    let setting = Setting::new(service(Frontend::Tcp, &[named("a")]));
    let mut late = setting.service.clone();
    late.listeners[0].backends = service(Frontend::Tcp, &[named("b")]).listeners[0]
        .backends
        .clone();
    let late_name = ServiceName {
        namespace: "aaa".into(),
        name: "first-in-order".into(),
    };
    let both = Settings::from([
        (name(), Arc::new(setting.service.clone())),
        (late_name.clone(), Arc::new(late.clone())),
    ]);
    setting.edge.apply(&both);
    assert_eq!(setting.taker().expect("a backend"), "a");
    let faults = setting.edge.faults().borrow().clone();
    let key = PortKey {
        service: late_name.clone(),
        port: setting.address().port(),
        transport: Transport::Tcp,
    };
    let observed = faults.get(&key).expect("a notification");
    assert!(
        observed[0].to_string().contains("Service shop/web listens there"),
        "{observed:?}"
    );
    setting.edge.apply(&Settings::from([(late_name, Arc::new(late))]));
    assert!(setting.edge.faults().borrow().is_empty());
    wait_until("the other has it", || {
        setting.taker().is_ok_and(|taker| taker == "b")
    });
}

#[test]
fn listens_at_addresses_of_other_nodes() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.addresses = vec![
        [192, 0, 2, 77].into(),
        "2001:db8::77".parse().expect("an address"),
    ];
    let setting = Setting::new(settings);
    assert!(
        setting.edge.faults().borrow().is_empty(),
        "{:?}",
        setting.edge.faults().borrow()
    );
}
