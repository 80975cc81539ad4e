use super::*;

fn service() -> ServiceName {
    ServiceName {
        namespace: "a".into(),
        name: "b".into(),
    }
}

fn headers(cookies: &[&'static str]) -> HeaderMap {
    cookies
        .iter()
        .map(|cookie| (COOKIE, HeaderValue::from_static(cookie)))
        .collect()
}

#[test]
fn a_cookie_leads_back_to_its_backend() {
    let key = StickyKey::new(b"secret");
    let backend = "192.0.2.1:80".parse().unwrap();
    let number = key.number(&service(), backend);
    let value = set_cookie("lb", number, None, false).unwrap();
    let value = value.to_str().unwrap();
    assert!(value.ends_with("; Path=/; HttpOnly"), "{value}");
    let pair: &'static str = value.split(';').next().unwrap().to_owned().leak();
    assert_eq!(numbers(&headers(&[pair]), "lb").collect::<Vec<_>>(), [number]);
    assert!(!value.contains("192.0.2.1"));
}

#[test]
fn numbers_differ_by_backend_service_and_secret() {
    let key = StickyKey::new(b"secret");
    let (one, other) = ("192.0.2.1:80".parse().unwrap(), "192.0.2.1:81".parse().unwrap());
    let elsewhere = ServiceName {
        namespace: "a".into(),
        name: "c".into(),
    };
    let number = key.number(&service(), one);
    assert_ne!(number, key.number(&service(), other));
    assert_ne!(number, key.number(&elsewhere, one));
    assert_ne!(number, StickyKey::new(b"other").number(&service(), one));
    assert_eq!(number, StickyKey::new(b"secret").number(&service(), one));
}

#[test]
fn a_former_secrets_cookies_still_mean_their_backend() {
    let secrets = |current: &[u8], previous: Option<&[u8]>| StickySecrets {
        current: current.to_vec(),
        previous: previous.map(<[u8]>::to_vec),
    };
    let backend = "192.0.2.1:80".parse().unwrap();
    let numbers = |secrets| Numbers::new(&Arc::new(StickyKeys::new(&secrets)), &service(), backend);
    let old = numbers(secrets(b"old", None));
    let both = numbers(secrets(b"new", Some(b"old")));
    let new = numbers(secrets(b"new", None));
    assert!(both.is_meant_by(&[1, old.told()]) && both.is_meant_by(&[new.told()]));
    assert_eq!(both.told(), new.told());
    assert!(!new.is_meant_by(&[old.told()]) && !both.is_meant_by(&[]));
    let keys = Arc::new(StickyKeys::new(&StickySecrets::default()));
    let numbers = Numbers::new(&keys, &service(), backend);
    assert!(numbers.are_of(&keys) && !numbers.are_of(&Arc::new(StickyKeys::new(&StickySecrets::default()))));
}

#[test]
fn all_cookies_of_the_name_are_found_and_no_other() {
    let cookies = headers(&[
        "a=0000000000000001; lb=0000000000000002;lb=x",
        "lb=0000000000000003; xlb=0000000000000004",
    ]);
    assert_eq!(numbers(&cookies, "lb").collect::<Vec<_>>(), [2, 3]);
    for odd in [
        "lb=+000000000000001",
        "lb=1",
        "lb",
        "lb==",
        "lb=00000000000000001",
    ] {
        assert_eq!(
            numbers(&headers(&[odd.to_owned().leak()]), "lb").count(),
            0,
            "{odd:?}"
        );
    }
}

#[test]
fn age_and_security_are_told() {
    let value = set_cookie("lb", 1, Some(Duration::from_secs(60)), true).unwrap();
    assert_eq!(value, "lb=0000000000000001; Path=/; HttpOnly; Secure; Max-Age=60");
    assert_eq!(set_cookie("l\nb", 1, None, false), None);
}
