use std::net::Ipv4Addr;

use super::*;

#[test]
fn clients_have_separate_rates() {
    let mut rates = ConnectionRates::default();
    let [one, other] = [1, 2].map(|number| IpAddr::from(Ipv4Addr::from_bits(number)));
    let at = Duration::from_millis;
    let admitted = (0..20).filter(|_| rates.admit(one, 5, at(0))).count();
    assert_eq!(admitted, 5);
    assert!(rates.admit(other, 5, at(0)));
    assert!(!rates.admit(one, 5, at(199)));
    assert!(rates.admit(one, 5, at(401)));
    assert!(rates.admit(one, 0, at(401)));
    let later = (0..20).filter(|_| rates.admit(one, 5, at(9_000))).count();
    assert_eq!(later, 5);
}

#[test]
fn table_is_bounded_and_recovers() {
    let mut rates = ConnectionRates::default();
    let client = |number: usize| IpAddr::from(Ipv4Addr::from_bits(number as u32));
    for number in 0..CLIENTS_MAX + 1_000 {
        assert!(rates.admit(client(number), 1, Duration::from_millis(1)));
    }
    assert_eq!(rates.clients.len(), CLIENTS_MAX);
    let newcomer = client(CLIENTS_MAX + 2_000);
    assert!(rates.admit(newcomer, 1, Duration::from_secs(2)));
    assert!(!rates.admit(newcomer, 1, Duration::from_secs(2)));
}
