use http::Request;
use http::header::HeaderMap;
use proptest::prelude::*;

use super::*;

const CLIENT: ClientSide = ClientSide {
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

/// What a backend of HTTP/1.1 gets: the target, and the fields but those that are always the same.
fn forwarded(version: Version, target: &str, fields: &[(&str, &str)]) -> (String, Vec<(String, String)>) {
    let mut parts = parts(version, target, fields);
    let onward = Onward::new(&mut parts, Some(HeaderValue::from_static("a")), CLIENT);
    onward.direct(&mut parts, Version::HTTP_11);
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
fn what_is_for_the_next_hop_alone_stays_behind() {
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
fn a_client_cannot_have_the_host_or_the_length_removed() {
    let fields = [
        ("connection", "host, content-length, x-forwarded-for"),
        ("content-length", "3"),
        ("host", "a"),
    ];
    let mut parts = parts(Version::HTTP_11, "/", &fields);
    let onward = Onward::new(&mut parts, Some(HeaderValue::from_static("a")), CLIENT);
    onward.direct(&mut parts, Version::HTTP_11);
    assert_eq!(
        (&parts.headers["host"], &parts.headers["content-length"]),
        (&"a".parse().unwrap(), &"3".parse().unwrap())
    );
    assert_eq!(parts.headers["x-forwarded-for"], "192.0.2.7");
}

#[test]
fn the_clients_address_goes_behind_those_that_others_told() {
    let fields = [
        ("x-forwarded-for", "198.51.100.1"),
        ("x-forwarded-for", "198.51.100.2, x"),
        ("x-forwarded-proto", "gopher"),
        ("x-forwarded-port", "1"),
        ("x_forwarded_for", "203.0.113.1"),
        ("x-forwarded_proto", "gopher"),
    ];
    let mut parts = parts(Version::HTTP_11, "/", &fields);
    Onward::new(&mut parts, None, CLIENT);
    let all = listing(&parts.headers, &[]);
    let expected = [
        pair("x-forwarded-for", "198.51.100.1, 198.51.100.2, x, 192.0.2.7"),
        pair("x-forwarded-port", "443"),
        pair("x-forwarded-proto", "https"),
    ];
    assert_eq!(all, expected);
}

#[test]
fn an_address_of_both_families_is_told_as_the_client_has_it() {
    let mut parts = parts(Version::HTTP_11, "/", &[]);
    let client = ClientSide {
        address: "::ffff:192.0.2.1".parse().unwrap(),
        is_tls: false,
        ..CLIENT
    };
    Onward::new(&mut parts, None, client);
    assert_eq!(parts.headers["x-forwarded-for"], "192.0.2.1");
    assert_eq!(parts.headers["x-forwarded-proto"], "http");
}

#[test]
fn other_protocols_are_asked_for_again_but_no_other_http() {
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
fn http2_becomes_http11() {
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
fn a_request_may_be_directed_again() {
    let mut parts = parts(Version::HTTP_11, "/b", &[("te", "trailers"), ("host", "a")]);
    let onward = Onward::new(&mut parts, Some(HeaderValue::from_static("a")), CLIENT);
    onward.direct(&mut parts, Version::HTTP_11);
    let first = (parts.uri.clone(), parts.headers.clone());
    onward.direct(&mut parts, Version::HTTP_2);
    assert_eq!(parts.uri, "https://a/b");
    assert!(!parts.headers.contains_key("host") && !parts.headers.contains_key("connection"));
    onward.direct(&mut parts, Version::HTTP_11);
    assert_eq!((parts.uri, parts.headers), first);
}

#[test]
fn answers_lose_what_is_for_the_next_hop() {
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
    to_client(&mut headers, false);
    assert_eq!(listing(&headers, &[]), [pair("server", "b")]);
    to_client(&mut switching, true);
    let expected = [
        pair("connection", "upgrade"),
        pair("server", "b"),
        pair("upgrade", "websocket"),
    ];
    assert_eq!(listing(&switching, &[]), expected);
}

#[test]
fn an_answer_with_two_lengths_has_none() {
    let mut headers = HeaderMap::new();
    headers.insert("content-length", HeaderValue::from_static("3"));
    headers.insert("transfer-encoding", HeaderValue::from_static("chunked"));
    to_client(&mut headers, false);
    assert!(headers.is_empty());
}

proptest! {
    #[test]
    fn nothing_of_the_last_hop_goes_on(values in prop::collection::vec(("[ -~]{0,20}", 0usize..5), 0..8)) {
        let names = ["connection", "te", "upgrade", "x-forwarded-for", "cookie"];
        let mut parts = parts(Version::HTTP_11, "/", &[]);
        for (value, name) in &values {
            let value = HeaderValue::from_str(value).unwrap();
            parts.headers.append(HeaderName::from_static(names[*name]), value);
        }
        let onward = Onward::new(&mut parts, None, CLIENT);
        onward.direct(&mut parts, Version::HTTP_11);
        let last = parts.headers.get_all(X_FORWARDED_FOR).iter().collect::<Vec<_>>();
        prop_assert_eq!(last.len(), 1);
        prop_assert!(last[0].as_bytes().ends_with(b"192.0.2.7"));
        let connection = parts.headers.get(CONNECTION).map(HeaderValue::as_bytes);
        prop_assert!(matches!(connection, None | Some(b"te" | b"upgrade")));
        prop_assert!(parts.headers.get(TE).is_none_or(|te| te == "trailers"));
    }
}
