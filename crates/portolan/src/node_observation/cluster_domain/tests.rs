use super::*;

#[test]
fn domain_is_behind_svc_in_the_search_list() {
    let pod = "nameserver 10.96.0.10\nsearch shop.svc.example.org svc.example.org example.org lan\noptions ndots:5\n";
    assert_eq!(parse(pod).as_deref(), Some("example.org"));
    assert_eq!(
        parse("search svc.cluster.local.\n").as_deref(),
        Some("cluster.local")
    );
    for text in ["", "search lan", "search svc.", "nameserver svc.a"] {
        assert_eq!(parse(text), None, "{text}");
    }
    assert_eq!(find(&[], &[]), "cluster.local");
}
