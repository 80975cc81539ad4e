use std::collections::BTreeSet;

use super::*;
use crate::admission::tests::{listener, service};
use crate::settings::{Balance, Frontend};

fn client(number: u8) -> IpAddr {
    [203, 0, 113, number].into()
}

fn addresses(chosen: impl IntoIterator<Item = Option<ChosenBackend>>) -> Vec<SocketAddr> {
    let chosen: Option<Vec<ChosenBackend>> = chosen.into_iter().collect();
    chosen
        .expect("a backend")
        .iter()
        .map(|chosen| chosen.backend.address)
        .collect()
}

#[test]
fn prefers_usable_backends_of_the_own_zone() {
    let mut settings = service();
    settings.policy.is_cross_zone = false;
    let mut listener = listener(Frontend::Tcp, 3);
    for (backend, zone) in listener.backends.iter_mut().zip(["a", "b", "a"]) {
        backend.zone = Some(zone.into());
    }
    let backends = Backends::default();
    backends.set(&settings, &listener, Some("a"));
    let [first, second, third] = [0, 1, 2].map(|number| listener.backends[number].address);
    assert_eq!(
        addresses((0..4).map(|_| backends.choose(client(1), &[]))),
        [first, third, first, third]
    );
    assert_eq!(addresses([backends.choose(client(1), &[first, third])]), [second]);
    settings.policy.is_cross_zone = true;
    backends.set(&settings, &listener, Some("a"));
    let all: BTreeSet<SocketAddr> = addresses((0..3).map(|_| backends.choose(client(1), &[])))
        .into_iter()
        .collect();
    assert_eq!(all.len(), 3);
}

#[test]
fn ejects_failing_backends_but_never_all() {
    let (settings, listener) = (service(), listener(Frontend::Tcp, 2));
    let backends = Backends::default();
    backends.set(&settings, &listener, None);
    let [failing, working] = [0, 1].map(|number| backends.all()[number].clone());
    (0..3).for_each(|_| backends.record_connect(&failing, false));
    assert_eq!(
        addresses((0..3).map(|_| backends.choose(client(1), &[]))),
        [working.address; 3]
    );
    (0..3).for_each(|_| backends.record_connect(&working, false));
    assert!(backends.choose(client(1), &[]).is_some());
    backends.record_connect(&failing, true);
    assert_eq!(
        addresses((0..3).map(|_| backends.choose(client(1), &[]))),
        [failing.address; 3]
    );
}

#[test]
fn client_affinity_ends_with_a_usable_backend() {
    let mut settings = service();
    settings.policy.stickiness = Stickiness::Source {
        timeout: Duration::from_secs(600),
    };
    let mut listener = listener(Frontend::Tcp, 4);
    let backends = Backends::default();
    backends.set(&settings, &listener, None);
    let home = addresses([backends.choose(client(1), &[])])[0];
    assert_eq!(
        addresses((0..8).map(|_| backends.choose(client(1), &[]))),
        [home; 8]
    );
    listener.backends.retain(|backend| backend.address != home);
    let left = backends.set(&settings, &listener, None);
    assert!(left.len() == 1 && left[0].address == home && left[0].is_removed());
    let next = addresses([backends.choose(client(1), &[])])[0];
    assert_ne!(next, home);
    assert_eq!(
        addresses((0..8).map(|_| backends.choose(client(1), &[]))),
        [next; 8]
    );
}

#[test]
fn count_of_open_connections_survives_changes_of_settings() {
    let mut settings = service();
    settings.policy.balance = Balance::LeastConnections;
    let mut listener = listener(Frontend::Tcp, 2);
    let backends = Backends::default();
    backends.set(&settings, &listener, None);
    let first = backends.choose(client(1), &[]).expect("a backend");
    listener.backends.reverse();
    backends.set(&settings, &listener, None);
    assert_eq!(first.backend.open_connections_and_requests(), 1);
    let second = backends.choose(client(1), &[]).expect("a backend");
    assert_ne!(first.backend.address, second.backend.address);
    drop(second);
    let third = backends.choose(client(1), &[]).expect("a backend");
    assert_ne!(first.backend.address, third.backend.address);
}

#[test]
fn cookie_selects_its_backend_while_usable() {
    let (settings, mut listener) = (service(), listener(Frontend::Tcp, 3));
    let backends = Backends::default();
    backends.set(&settings, &listener, None);
    let requested = backends.all()[1].clone();
    assert_eq!(
        addresses([backends.choose_by(|backend| backend.address == requested.address)]),
        [requested.address]
    );
    requested.set_healthy(false);
    assert!(
        backends
            .choose_by(|backend| backend.address == requested.address)
            .is_none()
    );
    requested.set_healthy(true);
    listener.backends[1].is_ready = false;
    backends.set(&settings, &listener, None);
    assert!(
        backends
            .choose_by(|backend| backend.address == requested.address)
            .is_none()
    );
}
