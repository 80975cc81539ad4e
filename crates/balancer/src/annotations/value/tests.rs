use super::*;

#[test]
fn ports_of_an_annotation_are_bounded() {
    let list = |count: usize| vec!["80"; count].join(",");
    assert!(ports(&list(PORTS_MAX)).is_ok());
    let error = ports(&list(PORTS_MAX + 1)).expect_err("too many ports");
    assert_eq!(
        error.to_string(),
        "expected * or up to 256 names or numbers of the Service's ports"
    );
}

#[test]
fn terms_of_a_node_selector_are_bounded() {
    let absent = |count: usize| vec!["!a"; count].join(",");
    assert!(node_selector(&absent(SELECTOR_TERMS_MAX)).is_ok());
    assert!(node_selector(&absent(SELECTOR_TERMS_MAX + 1)).is_err());
    let list = |before: &str, after: &str| {
        let terms = (0..SELECTOR_TERMS_MAX).map(|number| format!("{before}{number}{after}"));
        terms.collect::<Vec<_>>().join(",")
    };
    assert!(node_selector(&format!("a in ({})", list("v", ""))).is_err());
    assert!(node_labels(&list("k", "=v")).is_err());
    assert!(node_labels("role=edge,zone=a").is_ok());
}
