//! Clients that stay with their backend by a cookie.

use edge::StickySecrets;
use edge::settings::Stickiness;

use crate::backend::{Backend, OK};
use crate::client::{assert_status, exchange, get};
use crate::served::{Served, service};

fn with_cookie(served: &Served, cookie: &str) -> String {
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    exchange(served.address, request)
}

fn cookie(answer: &str) -> Option<String> {
    let value = answer.split("\r\nset-cookie: ").nth(1)?;
    Some(value.split(';').next()?.to_owned())
}

#[test]
fn a_client_with_a_cookie_stays() {
    let (one, other) = (Backend::answering(OK), Backend::answering(OK));
    let mut service = service(&[one.address, other.address]);
    service.policy.stickiness = Stickiness::Cookie {
        name: "lb".into(),
        max_age: None,
    };
    let mut served = Served::new(service);
    let first = get(served.address, "/");
    let given = cookie(&first).unwrap();
    assert!(
        given.starts_with("lb=") && !given.contains("127.0.0.1"),
        "{given}"
    );
    for _ in 0..5 {
        let answer = with_cookie(&served, &format!("a=b; {given}"));
        assert_status(&answer, 200);
        assert_eq!(cookie(&answer), None);
    }
    let counts = [one.recorded().len(), other.recorded().len()];
    assert!(counts == [6, 0] || counts == [0, 6], "{counts:?}");
    // A backend that is gone, and a value that nobody gave, lead to a new one.
    let left = usize::from(counts[0] == 0);
    served.service.listeners[0].backends.remove(left);
    served.apply();
    for value in [&given[..], "lb=0123456789abcdef", "lb=x"] {
        let answer = with_cookie(&served, value);
        assert_status(&answer, 200);
        assert!(cookie(&answer).is_some_and(|new| new != given), "{answer}");
    }
}

#[test]
fn a_secret_is_replaced_without_moving_anybody() {
    let (one, other) = (Backend::answering(OK), Backend::answering(OK));
    let mut service = service(&[one.address, other.address]);
    service.policy.stickiness = Stickiness::Cookie {
        name: "lb".into(),
        max_age: None,
    };
    let served = Served::new(service);
    let secrets = |current: &str, previous: Option<&str>| StickySecrets {
        current: current.into(),
        previous: previous.map(Into::into),
    };
    served.edge.set_sticky_secrets(&secrets("old", None));
    let old = cookie(&get(served.address, "/")).unwrap();
    served.edge.set_sticky_secrets(&secrets("new", Some("old")));
    // It stays where it was, and is told the cookie of the new secret …
    let new = cookie(&with_cookie(&served, &old)).unwrap();
    assert_ne!(new, old);
    assert_eq!(cookie(&with_cookie(&served, &new)), None);
    // … which holds when the old one is forgotten.
    served.edge.set_sticky_secrets(&secrets("new", None));
    assert_eq!(cookie(&with_cookie(&served, &new)), None);
    let counts = [one.recorded().len(), other.recorded().len()];
    assert!(counts == [4, 0] || counts == [0, 4], "{counts:?}");
    // Nobody knows the old one any more: whoever has it is sent on with a new one.
    assert!(cookie(&with_cookie(&served, &old)).is_some());
}

#[test]
fn a_cookie_with_an_age_is_given_again() {
    let backend = Backend::answering(OK);
    let mut service = service(&[backend.address]);
    service.policy.stickiness = Stickiness::Cookie {
        name: "lb".into(),
        max_age: Some(std::time::Duration::from_secs(60)),
    };
    let served = Served::new(service);
    let first = get(served.address, "/");
    assert!(first.contains("; Max-Age=60\r\n"), "{first}");
    let given = cookie(&first).unwrap();
    assert_eq!(cookie(&with_cookie(&served, &given)), Some(given));
}
