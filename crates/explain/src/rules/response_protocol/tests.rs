use super::*;

#[test]
fn wildcard_stands_for_one_label() {
    for (pattern, name) in [
        ("shop.example.com", "shop.example.com"),
        ("Shop.Example.com", "shop.example.com."),
        ("*.example.com", "shop.example.com"),
    ] {
        assert!(matches_name(pattern, name), "{pattern} {name}");
    }
    for (pattern, name) in [
        ("*.example.com", "example.com"),
        ("*.example.com", "a.shop.example.com"),
        ("example.com", "shop.example.com"),
        ("*.com", "example.org"),
    ] {
        assert!(!matches_name(pattern, name), "{pattern} {name}");
    }
}
