use std::net::SocketAddr;

use api::object::Protocol;
use explain::traffic::{
    ClientTraffic, EndpointTraffic, FrontendKind, FrontendTraffic, Names, NodeFlows, ServiceTraffic,
    TrafficStatistics,
};

use super::*;

fn statistics(open: u64, opened: u64, bytes: u64, refused: u64) -> TrafficStatistics {
    TrafficStatistics {
        open,
        opened,
        refused,
        bytes_to_endpoints: bytes,
        bytes_to_clients: 2 * bytes,
        ..TrafficStatistics::default()
    }
}

fn service(name: &str, statistics: TrafficStatistics, addresses: &[&str]) -> ServiceTraffic {
    let at = |text: &&str| text.parse::<SocketAddr>().expect("an address and port");
    ServiceTraffic {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        statistics,
        endpoints: addresses
            .iter()
            .map(|address| EndpointTraffic {
                address: Some(at(address)),
                protocol: Protocol::Tcp,
                statistics,
            })
            .collect(),
        clients: vec![ClientTraffic {
            address: at(&"203.0.113.9:1").ip(),
            statistics,
            endpoints: Vec::new(),
        }],
        clients_omitted: 7,
        frontends: vec![FrontendTraffic {
            kind: FrontendKind::NodePort,
            address: None,
            port: 30_080,
            protocol: Protocol::Tcp,
            port_name: String::new(),
            statistics,
        }],
        ..ServiceTraffic::default()
    }
}

/// Returns the traffic of a node with three Services. The name of one controls a terminal.
pub(super) fn traffic() -> ClusterTraffic {
    let report = NodeFlows {
        interval_seconds: 2.0,
        counts_bytes: true,
        services: vec![
            service(
                "web",
                statistics(12, 40, 4_096, 0),
                &["10.244.1.2:8080", "[fd00::2]:8080"],
            ),
            service("dns", statistics(3, 900, 1_024, 5), &["10.244.1.3:5353"]),
            service("evil\u{1b}[2J", statistics(1, 0, 0, 0), &[]),
        ],
        ..NodeFlows::default()
    };
    let mut names = Names::default();
    names.add_pod(
        "shop",
        "web-1",
        "node-a",
        ["10.244.1.2".parse().expect("an address")],
    );
    ClusterTraffic::merge(vec![("node-a".to_owned(), Ok(report))], &names)
}

fn names(table: &Table) -> Vec<&str> {
    table.rows.iter().map(|row| row[1].as_str()).collect()
}

#[test]
fn services_are_sorted_by_the_key() {
    for (sort, expected) in [
        (SortKey::Connections, ["web", "dns", "evil\\u{1b}[2J"]),
        (SortKey::Rate, ["dns", "web", "evil\\u{1b}[2J"]),
        (SortKey::Bytes, ["web", "dns", "evil\\u{1b}[2J"]),
        (SortKey::Failed, ["dns", "evil\\u{1b}[2J", "web"]),
        (SortKey::Name, ["dns", "evil\\u{1b}[2J", "web"]),
    ] {
        assert_eq!(
            names(&Table::of_services(&traffic(), sort, false)),
            expected,
            "{sort:?}"
        );
    }
}

#[test]
fn text_is_aligned_and_escaped() {
    let mut table = Table::of_services(&traffic(), SortKey::Connections, true);
    let expected = "\
NAMESPACE  NAME           CONNECTIONS    NEW  TO-ENDPOINTS  TO-CLIENTS  UNANSWERED  REFUSED  ENDPOINTS  CLIENTS  FRONTENDS
shop       web                     12   20/s      2.0KiB/s    4.0KiB/s           0        0          2        8  *:30080/TCP
shop       dns                      3  450/s        512B/s    1.0KiB/s           0        5          1        8  *:30080/TCP
shop       evil\\u{1b}[2J            1    0/s          0B/s        0B/s           0        0          0        8  *:30080/TCP
";
    assert_eq!(table.render(), expected);
    table.filter("WEB");
    assert_eq!(names(&table), ["web"]);
    table.filter("12");
    assert!(table.rows.is_empty(), "numbers are not searched");
}

#[test]
fn endpoints_and_clients_have_names() {
    let traffic = traffic();
    let services = sorted_services(&traffic, SortKey::Name);
    let endpoints = Table::of_endpoints(&services, SortKey::Connections);
    let cells: Vec<&[String]> = endpoints.rows.iter().map(|row| &row[1..5]).collect();
    assert_eq!(
        cells[0],
        ["web", "10.244.1.2:8080/TCP", "pod/shop/web-1", "node-a"]
    );
    assert_eq!(cells[1], ["web", "[fd00::2]:8080/TCP", "external", "-"]);
    let clients = Table::of_clients(&services, SortKey::Rate);
    assert_eq!(
        clients.rows[0][1..5],
        ["dns", "203.0.113.9", "external", "-"].map(str::to_owned)
    );
}
