use http::Request;

use super::*;

fn checked(version: Version, target: &str, fields: &[(&str, &str)]) -> Result<Option<String>, Refusal> {
    let mut request = Request::builder().version(version).uri(target);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    check(&parts).map(|host| host.map(|host| host.to_str().unwrap().to_owned()))
}

#[test]
fn the_host_is_the_targets_or_the_fields() {
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
fn a_request_that_says_two_things_is_refused() {
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
        let refused = checked(Version::HTTP_2, target, fields);
        assert!(
            matches!(refused, Err(Refusal::Malformed(_))),
            "{target} {fields:?}: {refused:?}"
        );
    }
}

#[test]
fn a_tunnel_to_elsewhere_is_not_served() {
    let (parts, ()) = Request::connect("a:443").body(()).unwrap().into_parts();
    assert_eq!(check(&parts), Err(Refusal::Method("CONNECT")));
}

#[test]
fn sizes_have_bounds() {
    let long = format!("https://a/{}", "b".repeat(TARGET_BYTES_MAX));
    assert_eq!(checked(Version::HTTP_2, &long, &[]), Err(Refusal::TargetTooLong));
    let many = vec![("b", "c"); FIELDS_MAX + 1];
    assert_eq!(
        checked(Version::HTTP_2, "https://a/", &many),
        Err(Refusal::HeadTooLarge)
    );
}
