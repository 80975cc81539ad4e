use api::object::ObjectKey;

use super::*;

fn parse(text: &str) -> Result<Query, ReportError> {
    let unescaped = text.replace("%2F", "/").replace("%2f", "/").replace("%3A", ":");
    Query::parse(&ReportRequest::parse(&unescaped))
}

#[test]
fn written_queries_read_back() {
    let rows = RowSelection {
        rows_max: 100,
        clients: vec![
            "10.244.1.9/32".parse().expect("a CIDR"),
            "fd00::/64".parse().expect("a CIDR"),
        ],
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
        "intervalMilliseconds=20001",
        "intervalMilliseconds=-1",
        "rows=10001",
        "client=10.0.0.1",
        "client=",
        "protocol=ICMP",
        "service=web",
    ] {
        assert!(parse(text).is_err(), "{text:?}");
    }
    let many: Vec<String> = (0..33).map(|number| format!("10.0.0.{number}/32")).collect();
    assert!(parse(&format!("client={}", many.join("_"))).is_err());
    assert!(parse(&format!("client={}", many[..32].join("_"))).is_ok());
}

#[test]
fn single_flows_replace_endpoints_and_clients() {
    let query = parse("rows=10000").expect("a query");
    assert_eq!(
        (query.rows().limits.endpoints, query.rows().limits.clients),
        (0, 0)
    );
    assert_eq!(parse("").expect("a query").rows().limits, Limits::default());
}
