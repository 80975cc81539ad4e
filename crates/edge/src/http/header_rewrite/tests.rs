use http::Request;
use http::header::HeaderMap;
use proptest::prelude::*;

use super::*;

const CLIENT: ClientInfo = ClientInfo {
    address: IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7)),
    port: 443,
    is_tls: true,
};

fn parts(version: Version, target: &str, fields: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().version(version).uri(target);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// Returns the request for a backend of HTTP/1.1: its target, and its fields except constant ones.
fn forwarded(version: Version, target: &str, fields: &[(&str, &str)]) -> (String, Vec<(String, String)>) {
    let mut parts = parts(version, target, fields);
    let head = ForwardedHead::new(&mut parts, Some(HeaderValue::from_static("a")), CLIENT);
    head.apply_version(&mut parts, Version::HTTP_11, false);
    (
        parts.uri.to_string(),
        listing(
            &parts.headers,
            &["x-forwarded-proto", "x-forwarded-port", "x-forwarded-for", "host"],
        ),
    )
}

fn listing(headers: &HeaderMap, without: &[&str]) -> Vec<(String, String)> {
    let mut list: Vec<_> = headers
        .iter()
        .filter(|(name, _)| !without.contains(&name.as_str()))
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    list.sort();
    list
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn removes_hop_by_hop_headers_of_requests() {
    let fields = [
        ("connection", "close, X-Mine, keep-alive"),
        ("x-mine", "1"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("proxy-authorization", "Basic YTpi"),
        ("proxy", "http://evil"),
        ("te", "gzip"),
        ("transfer-encoding", "chunked"),
        ("http2-settings", "AAMAAABk"),
        ("accept", "*/*"),
        ("forwarded", "for=x"),
    ];
    let (target, fields) = forwarded(Version::HTTP_11, "/b?c", &fields);
    assert_eq!(target, "/b?c");
    assert_eq!(fields, [pair("accept", "*/*"), pair("forwarded", "for=x")]);
}

#[test]
fn connection_header_cannot_remove_host_or_length() {
    let fields = [
        ("connection", "host, content-length, x-forwarded-for"),
        ("content-length", "3"),
        ("host", "a"),
    ];
    let mut parts = parts(Version::HTTP_11, "/", &fields);
    let head = ForwardedHead::new(&mut parts, Some(HeaderValue::from_static("a")), CLIENT);
    head.apply_version(&mut parts, Version::HTTP_11, false);
    assert_eq!(
        (&parts.headers["host"], &parts.headers["content-length"]),
        (&"a".parse().unwrap(), &"3".parse().unwrap())
    );
    assert_eq!(parts.headers["x-forwarded-for"], "192.0.2.7");
}

#[test]
fn client_address_is_appended_to_forwarded_for() {
    let fields = [
        ("x-forwarded-for", "198.51.100.1"),
        ("x-forwarded-for", "198.51.100.2, x"),
        ("x-forwarded-proto", "gopher"),
        ("x-forwarded-port", "1"),
        ("x_forwarded_for", "203.0.113.1"),
        ("x-forwarded_proto", "gopher"),
    ];
    let mut parts = parts(Version::HTTP_11, "/", &fields);
    ForwardedHead::new(&mut parts, None, CLIENT);
    let all = listing(&parts.headers, &[]);
    let expected = [
        pair("x-forwarded-for", "198.51.100.1, 198.51.100.2, x, 192.0.2.7"),
        pair("x-forwarded-port", "443"),
        pair("x-forwarded-proto", "https"),
    ];
    assert_eq!(all, expected);
}

#[test]
fn mapped_addresses_become_ipv4() {
    let mut parts = parts(Version::HTTP_11, "/", &[]);
    let client = ClientInfo {
        address: "::ffff:192.0.2.1".parse().unwrap(),
        is_tls: false,
        ..CLIENT
    };
    ForwardedHead::new(&mut parts, None, client);
    assert_eq!(parts.headers["x-forwarded-for"], "192.0.2.1");
    assert_eq!(parts.headers["x-forwarded-proto"], "http");
}

#[test]
fn upgrades_are_forwarded_except_to_http() {
    let upgrade = |protocol, more: &[_]| {
        let fields = [&[("connection", "Upgrade"), ("upgrade", protocol)], more].concat();
        forwarded(Version::HTTP_11, "/", &fields).1
    };
    let websocket = [pair("connection", "upgrade"), pair("upgrade", "websocket")];
    assert_eq!(upgrade("websocket", &[]), websocket);
    for protocol in ["h2c", "H2C", "websocket, h2c", "HTTP/2.0", "TLS/1.0", ""] {
        assert_eq!(upgrade(protocol, &[]), [], "{protocol}");
    }
    assert_eq!(
        upgrade("websocket", &[("content-length", "3")]),
        [pair("content-length", "3")]
    );
    assert_eq!(
        forwarded(Version::HTTP_11, "/", &[("upgrade", "websocket")]).1,
        []
    );
    assert_eq!(
        forwarded(
            Version::HTTP_10,
            "/",
            &[("upgrade", "websocket"), ("connection", "upgrade")]
        )
        .1,
        []
    );
}

#[test]
fn http2_requests_become_http11() {
    let fields = [("cookie", "a=b"), ("cookie", "c=d"), ("te", "trailers")];
    let (target, fields) = forwarded(Version::HTTP_2, "https://a/b?c=d", &fields);
    assert_eq!(target, "/b?c=d");
    assert_eq!(
        fields,
        [
            pair("connection", "te"),
            pair("cookie", "a=b; c=d"),
            pair("te", "trailers")
        ]
    );
    assert_eq!(forwarded(Version::HTTP_11, "http://a?c=d", &[]).0, "/?c=d");
    assert_eq!(forwarded(Version::HTTP_11, "http://a", &[]).0, "/");
}

#[test]
fn version_can_be_applied_again() {
    let mut parts = parts(Version::HTTP_11, "/b", &[("te", "trailers"), ("host", "a")]);
    let head = ForwardedHead::new(&mut parts, Some(HeaderValue::from_static("a")), CLIENT);
    head.apply_version(&mut parts, Version::HTTP_11, false);
    let first = (parts.uri.clone(), parts.headers.clone());
    head.apply_version(&mut parts, Version::HTTP_2, true);
    assert_eq!(parts.uri, "https://a/b");
    assert!(!parts.headers.contains_key("host") && !parts.headers.contains_key("connection"));
    head.apply_version(&mut parts, Version::HTTP_11, false);
    assert_eq!((parts.uri, parts.headers), first);
}

#[test]
fn removes_hop_by_hop_headers_of_responses() {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("connection", "close"),
        ("upgrade", "websocket"),
        ("keep-alive", "x"),
        ("server", "b"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let mut switching = headers.clone();
    prepare_for_client(&mut headers, false);
    assert_eq!(listing(&headers, &[]), [pair("server", "b")]);
    prepare_for_client(&mut switching, true);
    let expected = [
        pair("connection", "upgrade"),
        pair("server", "b"),
        pair("upgrade", "websocket"),
    ];
    assert_eq!(listing(&switching, &[]), expected);
}

#[test]
fn response_with_two_framings_loses_its_length() {
    let mut headers = HeaderMap::new();
    headers.insert("content-length", HeaderValue::from_static("3"));
    headers.insert("transfer-encoding", HeaderValue::from_static("chunked"));
    prepare_for_client(&mut headers, false);
    assert!(headers.is_empty());
}

proptest! {
    #[test]
    fn hop_by_hop_headers_are_not_forwarded(values in prop::collection::vec(("[ -~]{0,20}", 0usize..5), 0..8)) {
        let names = ["connection", "te", "upgrade", "x-forwarded-for", "cookie"];
        let mut parts = parts(Version::HTTP_11, "/", &[]);
        for (value, name) in &values {
            let value = HeaderValue::from_str(value).unwrap();
            parts.headers.append(HeaderName::from_static(names[*name]), value);
        }
        let head = ForwardedHead::new(&mut parts, None, CLIENT);
        head.apply_version(&mut parts, Version::HTTP_11, false);
        let last = parts.headers.get_all(X_FORWARDED_FOR).iter().collect::<Vec<_>>();
        prop_assert_eq!(last.len(), 1);
        prop_assert!(last[0].as_bytes().ends_with(b"192.0.2.7"));
        let connection = parts.headers.get(CONNECTION).map(HeaderValue::as_bytes);
        prop_assert!(matches!(connection, None | Some(b"te" | b"upgrade")));
        prop_assert!(parts.headers.get(TE).is_none_or(|te| te == "trailers"));
    }
}
