use super::*;

#[test]
fn rewrites_redirects_to_paths_of_the_server() {
    let prefix = "/api/v1/namespaces/d/services/web/proxy";
    let to = |location: &str| rewritten(location, "192.0.2.1:80", "api:6443", prefix);
    assert_eq!(to("/login?x=1"), format!("{prefix}/login?x=1"));
    assert_eq!(to("http://192.0.2.1:80/a/"), format!("{prefix}/a/"));
    assert_eq!(to("https://api:6443/a"), format!("{prefix}/a"));
    assert_eq!(to(&format!("{prefix}/a")), format!("{prefix}/a"));
    for elsewhere in ["http://example.com/a", "//example.com/a", "next", "?page=2"] {
        assert_eq!(to(elsewhere), elsewhere);
    }
}

#[test]
fn removes_hop_by_hop_headers() {
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade, X-Private"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert("x-private", HeaderValue::from_static("1"));
    headers.insert("x-public", HeaderValue::from_static("1"));
    assert!(is_upgrade(&headers));
    remove_hop_by_hop(&mut headers);
    assert_eq!(
        headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(),
        ["x-public"]
    );
}
