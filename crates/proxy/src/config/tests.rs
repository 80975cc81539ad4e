use super::*;

#[test]
fn parses_upstream_node_port_addresses() {
    let read = |text: &str| text.parse::<NodePortSelection>();
    assert_eq!(read("primary").ok(), Some(NodePortSelection::Primary));
    assert_eq!(read("").ok(), Some(NodePortSelection::All));
    assert_eq!(read("0.0.0.0/0,::/0").ok(), Some(NodePortSelection::All));
    let one = vec!["192.0.2.0/24".parse().expect("CIDR")];
    assert_eq!(read(" 192.0.2.0/24 ").ok(), Some(NodePortSelection::Within(one)));
    let error = read("192.0.2.0/24,secondary").expect_err("not a CIDR");
    assert!(error.to_string().ends_with("found \"secondary\""), "{error}");
}
