use http::Request;

use super::*;

fn checked(
    version: Version,
    target: &str,
    fields: &[(&str, &str)],
) -> Result<Option<String>, RequestRejection> {
    let mut request = Request::builder().version(version).uri(target);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    check(&parts).map(|host| host.map(|host| host.to_str().unwrap().to_owned()))
}

#[test]
fn host_comes_from_target_or_field() {
    let host = |version, target, fields: &[_]| checked(version, target, fields).unwrap();
    assert_eq!(
        host(Version::HTTP_11, "/", &[("host", "a:80")]).as_deref(),
        Some("a:80")
    );
    assert_eq!(host(Version::HTTP_2, "https://a/", &[]).as_deref(), Some("a"));
    assert_eq!(
        host(Version::HTTP_2, "https://a/", &[("host", "A")]).as_deref(),
        Some("a")
    );
    assert_eq!(host(Version::HTTP_2, "/", &[("host", "a")]).as_deref(), Some("a"));
    assert_eq!(host(Version::HTTP_10, "/", &[]), None);
}

#[test]
fn rejects_contradictory_requests() {
    for (target, fields) in [
        ("https://a/", &[("host", "b")][..]),
        ("/", &[]),
        ("/", &[("host", "a"), ("host", "a")]),
        ("/", &[("host", "a/b")]),
        ("https://a@b/", &[]),
        ("https://a/", &[("content-length", "1"), ("content-length", "1")]),
        ("https://a/", &[("content_length", "1")]),
        (
            "https://a/",
            &[
                ("transfer-encoding_", "chunked"),
                ("transfer_encoding", "chunked"),
            ],
        ),
        ("https://a/", &[("b", " c")]),
        ("https://a/", &[("b", "c\t")]),
        ("https://a/\u{e4}", &[]),
        ("*", &[("host", "a")]),
    ] {
        let rejected = checked(Version::HTTP_2, target, fields);
        assert!(
            matches!(rejected, Err(RequestRejection::Malformed(_))),
            "{target} {fields:?}: {rejected:?}"
        );
    }
}

#[test]
fn rejects_the_method_connect() {
    let (parts, ()) = Request::connect("a:443").body(()).unwrap().into_parts();
    assert_eq!(check(&parts), Err(RequestRejection::Method("CONNECT")));
}

#[test]
fn rejects_oversized_requests() {
    let long = format!("https://a/{}", "b".repeat(TARGET_BYTES_MAX));
    assert_eq!(
        checked(Version::HTTP_2, &long, &[]),
        Err(RequestRejection::TargetTooLong)
    );
    let many = vec![("b", "c"); FIELDS_MAX + 1];
    assert_eq!(
        checked(Version::HTTP_2, "https://a/", &many),
        Err(RequestRejection::HeadTooLarge)
    );
}
