use super::*;

fn parse(text: &str) -> Result<Query, InvalidParameter> {
    let unescaped = text.replace("%2F", "/").replace("%2f", "/").replace("%3A", ":");
    let parameters: Vec<(&str, &str)> = unescaped.split('&').filter_map(|pair| pair.split_once('=')).collect();
    Query::parse(parameters)
}

#[test]
fn written_queries_read_back() {
    let rows = RowSelection {
        rows_max: 100,
        clients: vec!["10.244.1.9/32".parse().expect("a CIDR"), "fd00::/64".parse().expect("a CIDR")],
        protocol: Some(Protocol::Udp),
    };
    for selection in [
        Selection::All,
        Selection::Namespace("shop".to_owned()),
        Selection::Service(ObjectKey::new("shop", "web")),
    ] {
        let query = Query {
            interval: Duration::from_millis(1_500),
            selection,
            rows: rows.clone(),
        };
        assert_eq!(parse(&query.to_text()), Ok(query));
    }
    assert_eq!(parse(""), Ok(Query::default()));
    assert_eq!(parse("unknown=1"), Ok(Query::default()));
}

#[test]
fn rejects_parameters_out_of_range() {
    for text in [
        "intervalMilliseconds=99",
        "intervalMilliseconds=60001",
        "intervalMilliseconds=-1",
        "rows=10001",
        "client=10.0.0.1",
        "protocol=ICMP",
        "namespace=a/b",
        "service=\u{1b}[2J",
    ] {
        assert!(parse(text).is_err(), "{text:?}");
    }
    let many: Vec<String> = (0..33).map(|number| format!("client=10.0.0.{number}/32")).collect();
    assert!(parse(&many.join("&")).is_err());
    assert!(parse(&many[..32].join("&")).is_ok());
    let long = format!("service={}", "a".repeat(64));
    assert!(parse(&long).is_err());
}
