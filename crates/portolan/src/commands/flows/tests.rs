use clap::Parser;
use explain::traffic::{FrontendKind, Peer};

use super::*;

#[derive(Debug, Parser)]
struct CommandLine {
    #[command(flatten)]
    flags: Flags,
}

fn flags(arguments: &[&str]) -> Flags {
    let line = std::iter::once(&"flows").chain(arguments);
    CommandLine::try_parse_from(line).expect("flags").flags
}

fn flow() -> NodeFlow {
    let at = |text: &str| text.parse().expect("an address and port");
    NodeFlow {
        node: "node-a".to_owned(),
        client_peer: Peer {
            kind: PeerKind::Pod,
            name: "pay/cart".to_owned(),
            node: "node-a".to_owned(),
        },
        endpoint_peer: None,
        flow: FlowRow {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            port_name: "http".to_owned(),
            protocol: Protocol::Tcp,
            kind: FrontendKind::NodePort,
            address: None,
            port: 30_080,
            client: at("10.244.1.9:4000"),
            masqueraded_as: Some(at("192.0.2.10:4000")),
            endpoint: None,
            state: "EVIL\u{1b}[2J".to_owned(),
            age_seconds: 3.9,
            may_be_older: true,
            expires_in_seconds: 7_300,
            bytes_to_endpoint: Some(1_536),
            bytes_to_client: None,
            statistics: explain::traffic::TrafficStatistics::default(),
        },
    }
}

#[test]
fn line_has_units_and_no_control_characters() {
    let traffic = ClusterTraffic {
        flows: vec![flow()],
        ..ClusterTraffic::default()
    };
    let found = text(&traffic, &flags(&["-o", "wide"]));
    let expected = "\
PROTOCOL  SERVICE        FRONTEND         CLIENT           ENDPOINT  STATE          AGE  TO-ENDPOINT  TO-CLIENT  NODE    CLIENT-NAME   ENDPOINT-NAME  MASQUERADED-AS   EXPIRES
TCP       shop/web:http  node port 30080  10.244.1.9:4000  -         EVIL\\u{1b}[2J  >3s  1.5KiB       -          node-a  pod/pay/cart  -              192.0.2.10:4000  2h
";
    assert_eq!(found, expected);
}

#[test]
fn clients_resolve_to_addresses() {
    let mut names = Names::default();
    let address = |text: &str| text.parse::<std::net::IpAddr>().expect("an address");
    names.add_node("node-a", [address("192.0.2.10")]);
    names.add_pod(
        "pay",
        "cart",
        "node-a",
        [address("10.244.1.9"), address("fd00::9")],
    );
    let resolve = |text: &str| {
        let client: ClientName = text.parse().expect("a client");
        let mut ranges: Vec<String> = ranges(&client, &names)
            .map_err(|error| error.to_string())?
            .iter()
            .map(ToString::to_string)
            .collect();
        ranges.sort();
        Ok::<_, String>(ranges)
    };
    assert_eq!(
        resolve("pod/pay/cart"),
        Ok(vec!["10.244.1.9/32".to_owned(), "fd00::9/128".to_owned()])
    );
    assert_eq!(resolve("node/node-a"), Ok(vec!["192.0.2.10/32".to_owned()]));
    assert_eq!(resolve("203.0.113.9"), Ok(vec!["203.0.113.9/32".to_owned()]));
    assert!(
        resolve("pod/pay/other")
            .expect_err("no address")
            .starts_with("--from: no address of pay/other")
    );
}

#[test]
fn rejects_invalid_flags() {
    for arguments in [
        &["--limit", "0"][..],
        &["--limit", "10001"],
        &["--protocol", "icmp"],
        &["--from", "web"],
        &["service"],
    ] {
        let line = std::iter::once(&"flows").chain(arguments);
        assert!(CommandLine::try_parse_from(line).is_err(), "{arguments:?}");
    }
    assert_eq!(flags(&["--protocol", "udp"]).protocol, Some(Protocol::Udp));
}
