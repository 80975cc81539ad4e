use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct CommandLine {
    #[command(flatten)]
    flags: Flags,
}

fn flags(arguments: &[&str]) -> Flags {
    let line = ["trace", "tcp://web.shop:80"].iter().chain(arguments);
    CommandLine::try_parse_from(line).expect("flags").flags
}

fn error(arguments: &[&str]) -> String {
    request(&flags(arguments)).expect_err("an error").to_string()
}

#[test]
fn client_is_required() {
    assert!(CommandLine::try_parse_from(["trace", "tcp://web.shop:80"]).is_err());
    for line in [
        ["trace", "web", "--from", "pod/a/b"],
        ["trace", "tcp://web:80", "--from", "web"],
    ] {
        assert!(CommandLine::try_parse_from(line).is_err(), "{line:?}");
    }
}

#[test]
fn node_is_for_clients_outside_of_the_cluster() {
    let outside = request(&flags(&["--from", "203.0.113.9", "--node", "node-a"])).expect("a request");
    assert_eq!(outside.nodes, Nodes::Named("node-a".to_owned()));
    let message = error(&["--from", "pod/shop/cart", "--node", "node-a"]);
    assert!(message.starts_with("--node needs a client outside"), "{message}");
}

#[test]
fn flags_of_the_proxy_have_its_defaults_and_checks() {
    let settings = |arguments: &[&str]| {
        let arguments = [&["--from", "203.0.113.9"], arguments].concat();
        request(&flags(&arguments)).expect("a request").proxy
    };
    assert_eq!(settings(&[]), ProxySettings::default());
    let given = settings(&[
        "--cluster-cidr",
        "10.244.0.0/16",
        "--masquerade-all",
        "--nodeport-addresses",
        "0.0.0.0/0",
    ]);
    let net = |text: &str| text.parse::<IpNet>().expect("a CIDR");
    assert_eq!(given.pods, Some(PodDetection::Ranges(vec![net("10.244.0.0/16")])));
    assert!(given.masquerade_all);
    assert_eq!(given.node_ports, NodePorts::Within(vec![net("0.0.0.0/0")]));
    for arguments in [
        ["--nodeport-addresses", "primary,10.0.0.0/8"],
        ["--cluster-cidr", "10.0.0.0/8,10.0.0.0/9"],
        ["--cluster-domain", "."],
    ] {
        assert!(!error(&[&["--from", "203.0.113.9"], &arguments[..]].concat()).is_empty());
    }
}
