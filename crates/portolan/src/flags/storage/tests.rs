use super::is_remote_plain_http;

#[test]
fn remote_plain_http_excludes_loopback_and_https() {
    for remote in [
        "http://192.0.2.1:2379",
        "http://[2001:db8::1]:2379/",
        "http://etcd.example:2379",
    ] {
        assert!(is_remote_plain_http(remote), "{remote}");
    }
    for local_or_tls in [
        "https://192.0.2.1:2379",
        "http://127.0.0.1:2379",
        "http://[::1]:2379",
        "http://localhost:2379",
    ] {
        assert!(!is_remote_plain_http(local_or_tls), "{local_or_tls}");
    }
}
