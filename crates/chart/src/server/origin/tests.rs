use http::header::HeaderValue;

use super::*;

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers
}

#[test]
fn host_must_be_a_loopback_name() {
    for host in [
        "127.0.0.1",
        "127.0.0.1:10280",
        "127.9.9.9:1",
        "[::1]:10280",
        "localhost",
        "LocalHost.:8080",
        "chart.localhost:80",
    ] {
        assert!(check_host(&headers(&[("host", host)])).is_ok(), "{host}");
    }
    for host in [
        "",
        "rebound.example:10280",
        "127.0.0.1.example",
        "localhost.example",
        "notlocalhost",
        "192.0.2.1:10280",
        "[2001:db8::1]",
        "127.0.0.1:10280:1",
        "a b",
    ] {
        assert!(check_host(&headers(&[("host", host)])).is_err(), "{host:?}");
    }
    assert!(check_host(&headers(&[])).is_err(), "a request names its host");
}

#[test]
fn requests_of_other_pages_are_refused() {
    let own = [
        vec![("host", "127.0.0.1:10280")],
        vec![("host", "127.0.0.1:10280"), ("sec-fetch-site", "same-origin")],
        vec![("host", "127.0.0.1:10280"), ("sec-fetch-site", "none")],
        vec![("host", "127.0.0.1:10280"), ("origin", "http://127.0.0.1:10280")],
    ];
    for pairs in own {
        assert!(check_site(&headers(&pairs)).is_ok(), "{pairs:?}");
    }
    let others = [
        vec![("host", "127.0.0.1:10280"), ("sec-fetch-site", "cross-site")],
        vec![("host", "127.0.0.1:10280"), ("sec-fetch-site", "same-site")],
        vec![("host", "127.0.0.1:10280"), ("origin", "http://127.0.0.1:9999")],
        vec![("host", "127.0.0.1:10280"), ("origin", "https://example.org")],
        vec![("host", "127.0.0.1:10280"), ("origin", "null")],
    ];
    for pairs in others {
        assert!(check_site(&headers(&pairs)).is_err(), "{pairs:?}");
    }
}
