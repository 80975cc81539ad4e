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
fn cookie_round_trips_to_its_backend() {
    let key = StickyKey::new(b"secret");
    let backend = "192.0.2.1:80".parse().unwrap();
    let id = key.id(&service(), backend);
    let value = set_cookie("lb", id, None, false).unwrap();
    let value = value.to_str().unwrap();
    assert!(value.ends_with("; Path=/; HttpOnly"), "{value}");
    let pair: &'static str = value.split(';').next().unwrap().to_owned().leak();
    assert_eq!(ids(&headers(&[pair]), "lb").collect::<Vec<_>>(), [id]);
    assert!(!value.contains("192.0.2.1"));
}

#[test]
fn ids_differ_by_backend_service_and_secret() {
    let key = StickyKey::new(b"secret");
    let (one, other) = ("192.0.2.1:80".parse().unwrap(), "192.0.2.1:81".parse().unwrap());
    let elsewhere = ServiceName {
        namespace: "a".into(),
        name: "c".into(),
    };
    let id = key.id(&service(), one);
    assert_ne!(id, key.id(&service(), other));
    assert_ne!(id, key.id(&elsewhere, one));
    assert_ne!(id, StickyKey::new(b"other").id(&service(), one));
    assert_eq!(id, StickyKey::new(b"secret").id(&service(), one));
}

#[test]
fn cookies_of_the_previous_secret_stay_valid() {
    let secrets = |current: &[u8], previous: Option<&[u8]>| StickySecrets {
        current: current.to_vec(),
        previous: previous.map(<[u8]>::to_vec),
    };
    let backend = "192.0.2.1:80".parse().unwrap();
    let ids = |secrets| CookieIds::new(&Arc::new(StickyKeys::new(&secrets)), &service(), backend);
    let old = ids(secrets(b"old", None));
    let both = ids(secrets(b"new", Some(b"old")));
    let new = ids(secrets(b"new", None));
    assert!(both.matches_any(&[1, old.current()]) && both.matches_any(&[new.current()]));
    assert_eq!(both.current(), new.current());
    assert!(!new.matches_any(&[old.current()]) && !both.matches_any(&[]));
    let keys = Arc::new(StickyKeys::new(&StickySecrets::default()));
    let ids = CookieIds::new(&keys, &service(), backend);
    assert!(ids.belong_to(&keys) && !ids.belong_to(&Arc::new(StickyKeys::new(&StickySecrets::default()))));
}

#[test]
fn finds_all_cookies_of_the_name_only() {
    let cookies = headers(&[
        "a=0000000000000001; lb=0000000000000002;lb=x",
        "lb=0000000000000003; xlb=0000000000000004",
    ]);
    assert_eq!(ids(&cookies, "lb").collect::<Vec<_>>(), [2, 3]);
    for odd in [
        "lb=+000000000000001",
        "lb=1",
        "lb",
        "lb==",
        "lb=00000000000000001",
    ] {
        assert_eq!(
            ids(&headers(&[odd.to_owned().leak()]), "lb").count(),
            0,
            "{odd:?}"
        );
    }
}

#[test]
fn set_cookie_has_age_and_secure() {
    let value = set_cookie("lb", 1, Some(Duration::from_secs(60)), true).unwrap();
    assert_eq!(value, "lb=0000000000000001; Path=/; HttpOnly; Secure; Max-Age=60");
    assert_eq!(set_cookie("l\nb", 1, None, false), None);
}

#[test]
fn number_of_ids_is_bounded() {
    let pairs: Vec<String> = (0..2_000).map(|id| format!("lb={id:016x}")).collect();
    let mut headers = HeaderMap::new();
    headers.insert(COOKIE, HeaderValue::try_from(pairs.join("; ")).unwrap());
    let found: Vec<u64> = ids(&headers, "lb").collect();
    assert_eq!(found, (0..16).collect::<Vec<u64>>());
}
