use super::*;

#[test]
fn distance_counts_edits_and_swaps() {
    for (a, b, edits) in [
        ("", "", 0),
        ("web", "", 3),
        ("web", "web", 0),
        ("web", "wbe", 1),
        ("hostnames", "hostname", 1),
        ("kitten", "sitting", 3),
    ] {
        assert_eq!(edit_distance(a, b), edits, "{a} {b}");
        assert_eq!(edit_distance(b, a), edits, "{b} {a}");
    }
}

#[test]
fn nearest_ignores_unrelated_names() {
    assert_eq!(nearest_name("htpp", ["metrics", "http"]), Some("http"));
    assert_eq!(nearest_name("http", ["http-web", "grpc"]), Some("http-web"));
    assert_eq!(nearest_name("http", ["metrics", "grpc"]), None);
}
