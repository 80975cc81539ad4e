use super::is_open_to_others;

#[test]
fn plain_http_to_another_machine_is_told_from_loopback_and_https() {
    for open in [
        "http://192.0.2.1:2379",
        "http://[2001:db8::1]:2379/",
        "http://etcd.example:2379",
    ] {
        assert!(is_open_to_others(open), "{open}");
    }
    for closed in [
        "https://192.0.2.1:2379",
        "http://127.0.0.1:2379",
        "http://[::1]:2379",
        "http://localhost:2379",
    ] {
        assert!(!is_open_to_others(closed), "{closed}");
    }
}
