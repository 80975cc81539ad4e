use super::*;

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
