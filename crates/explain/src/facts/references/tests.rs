use super::*;

#[test]
fn hosts_and_ports_are_read_from_urls_and_pairs() {
    for (token, expected) in [
        ("http://web", Some(("web", None))),
        ("https://web.shop:8443/path", Some(("web.shop", Some(8443)))),
        (
            "jdbc:postgresql://user:secret@db:5432/shop",
            Some(("db", Some(5432))),
        ),
        ("redis://cache", Some(("cache", None))),
        ("web:8080", Some(("web", Some(8080)))),
        ("10.0.0.1:80", Some(("10.0.0.1", Some(80)))),
        ("127.0.0.1:80", None),
        ("localhost:80", None),
        ("web:latest", None),
        ("web", None),
        ("http://[::1]:80", None),
    ] {
        assert_eq!(host_and_port(token), expected, "{token}");
    }
}

#[test]
fn service_names_have_their_namespace() {
    assert_eq!(service_of("web", "shop"), Some(("web", "shop", false)));
    assert_eq!(service_of("web.cart", "shop"), Some(("web", "cart", false)));
    assert_eq!(service_of("web.cart.svc", "shop"), Some(("web", "cart", true)));
    assert_eq!(
        service_of("web-0.web.cart.svc.cluster.local", "shop"),
        Some(("web", "cart", true))
    );
    assert_eq!(service_of("www.example.com", "shop"), None);
}
