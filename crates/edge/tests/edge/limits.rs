//! Bounds on what clients may have, and who may connect at all.

use edge::settings::Frontend;

use crate::setting::{Setting, exchange, greeting, named, service, wait_until};

#[test]
fn no_more_connections_than_asked_for() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.policy.limits.connections_max = 2;
    let mut setting = Setting::new(settings);
    let mut first = setting.connect();
    let mut second = setting.connect();
    greeting(&mut first).expect("a greeting");
    greeting(&mut second).expect("a greeting");
    assert!(setting.taker().is_err());
    assert_eq!(exchange(&mut first, "unharmed").expect("an echo"), "unharmed");
    drop(second);
    wait_until("there is room again", || setting.taker().is_ok());
    setting.service.policy.limits.connections_max = 0;
    setting.apply();
    let many: Vec<_> = (0..10).map(|_| setting.connect()).collect();
    for mut stream in many {
        greeting(&mut stream).expect("a greeting");
    }
    assert!(setting.metric("portolan_edge_refused_total", "service_connections") >= Some(1));
}

#[test]
fn one_client_connects_no_more_often_than_asked_for() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.policy.limits.connections_per_second = 3;
    let setting = Setting::new(settings);
    let all = 40;
    let taken = (0..all).filter(|_| setting.taker().is_ok()).count();
    assert!((3..all).contains(&taken), "{taken} of {all}");
    // A client may hear of it before it is counted.
    let refused = || setting.metric("portolan_edge_refused_total", "reason=\"rate\"");
    wait_until("every refusal is counted", || {
        refused() == Some((all - taken) as u64)
    });
}

#[test]
fn who_is_outside_of_the_ranges_is_sent_away() {
    let mut settings = service(Frontend::Tcp, &[named("a")]);
    settings.policy.source_ranges = vec!["192.0.2.0/24".parse().expect("a range")];
    let mut setting = Setting::new(settings);
    assert!(setting.taker().is_err());
    setting
        .service
        .policy
        .source_ranges
        .push("127.0.0.0/8".parse().expect("a range"));
    setting.apply();
    assert_eq!(setting.taker().expect("a backend"), "a");
    assert_eq!(
        setting.metric("portolan_edge_refused_total", "source_range"),
        Some(1)
    );
}
