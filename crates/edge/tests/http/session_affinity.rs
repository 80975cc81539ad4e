//! Session affinity by cookie.

use edge::StickySecrets;
use edge::settings::Stickiness;

use crate::backend::{Backend, OK};
use crate::client::{assert_status, exchange, get};
use crate::served::{Served, service};

fn with_cookie(served: &Served, cookie: &str) -> String {
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    exchange(served.address, request)
}

fn cookie(response: &str) -> Option<String> {
    let value = response.split("\r\nset-cookie: ").nth(1)?;
    Some(value.split(';').next()?.to_owned())
}

#[test]
fn cookie_keeps_the_backend() {
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
        let response = with_cookie(&served, &format!("a=b; {given}"));
        assert_status(&response, 200);
        assert_eq!(cookie(&response), None);
    }
    let counts = [one.recorded().len(), other.recorded().len()];
    assert!(counts == [6, 0] || counts == [0, 6], "{counts:?}");
    // A removed backend, and an unknown value, cause a new cookie.
    let left = usize::from(counts[0] == 0);
    served.service.listeners[0].backends.remove(left);
    served.apply();
    for value in [&given[..], "lb=0123456789abcdef", "lb=x"] {
        let response = with_cookie(&served, value);
        assert_status(&response, 200);
        assert!(cookie(&response).is_some_and(|new| new != given), "{response}");
    }
}

#[test]
fn replacing_the_secret_moves_no_client() {
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
    // The client stays with its backend and receives a cookie of the new secret …
    let new = cookie(&with_cookie(&served, &old)).unwrap();
    assert_ne!(new, old);
    assert_eq!(cookie(&with_cookie(&served, &new)), None);
    // … which stays valid when the old secret is removed.
    served.edge.set_sticky_secrets(&secrets("new", None));
    assert_eq!(cookie(&with_cookie(&served, &new)), None);
    let counts = [one.recorded().len(), other.recorded().len()];
    assert!(counts == [4, 0] || counts == [0, 4], "{counts:?}");
    // A cookie of the old secret is unknown by then, and is replaced.
    assert!(cookie(&with_cookie(&served, &old)).is_some());
}

#[test]
fn cookie_with_max_age_is_renewed() {
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
