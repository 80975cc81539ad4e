use serde_json::json;
use tokio::net::TcpListener;

use super::*;

/// Address of a documentation range (RFC 5737): no host has it.
const UNANSWERED: &str = "192.0.2.1:80";

fn departed(endpoint: &str, node: &str) -> DepartedEndpoint {
    DepartedEndpoint {
        service: ObjectKey::new("ns", "web"),
        endpoint: endpoint.parse().expect("an address"),
        node: node.into(),
    }
}

fn nodes(due: &[(Arc<str>, Endpoints)]) -> Vec<&str> {
    due.iter().map(|(node, _)| &**node).collect()
}

fn checks() -> NodeChecks {
    NodeChecks::new(Duration::ZERO)
}

fn endpoints(addresses: &[&str]) -> Endpoints {
    let addresses = addresses.iter();
    let addresses = addresses.map(|address| address.parse().expect("an address"));
    addresses
        .map(|address| (ObjectKey::new("ns", "web"), address))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn node_is_checked_at_each_delay_and_then_no_more() {
    for check_delay in [Duration::ZERO, CHECK_DELAY_MAX] {
        let (mut checks, now) = (NodeChecks::new(check_delay), Instant::now());
        checks.add(vec![departed("10.244.1.2:80", "node-b")], now);
        let begin = now + check_delay;
        for delay in CHECK_DELAYS {
            assert_eq!(checks.next(), Some(begin + delay));
            let early = checks.due(begin + delay - Duration::from_millis(1), CONCURRENT_NODES_MAX);
            assert_eq!(nodes(&early), [""; 0]);
            assert_eq!(
                nodes(&checks.due(begin + delay, CONCURRENT_NODES_MAX)),
                ["node-b"]
            );
            assert_eq!(checks.finish("node-b", CheckResult::Undecided), HashSet::new());
        }
        assert_eq!(checks.next(), None);
        assert!(checks.nodes.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn ready_node_is_not_checked_again() {
    let (mut checks, begin) = (checks(), Instant::now());
    checks.add(vec![departed("10.244.1.2:80", "node-b")], begin);
    checks.due(begin + CHECK_DELAYS[0], CONCURRENT_NODES_MAX);
    checks.finish("node-b", CheckResult::Ready);
    assert_eq!(checks.next(), None);
    // An endpoint that leaves during the check is checked by itself.
    checks.add(vec![departed("10.244.1.2:80", "node-b")], begin);
    checks.due(begin + CHECK_DELAYS[0], CONCURRENT_NODES_MAX);
    checks.add(vec![departed("10.244.1.3:80", "node-b")], begin);
    checks.finish("node-b", CheckResult::Ready);
    assert_eq!(checks.next(), Some(begin + CHECK_DELAYS[0]));
}

#[tokio::test(start_paused = true)]
async fn later_endpoint_begins_the_checks_of_its_node_again() {
    let (mut checks, begin) = (checks(), Instant::now());
    checks.add(vec![departed("10.244.1.2:80", "node-b")], begin);
    checks.due(begin + CHECK_DELAYS[0], CONCURRENT_NODES_MAX);
    let later = begin + Duration::from_secs(5);
    checks.add(vec![departed("10.244.1.3:80", "node-b")], later);
    assert_eq!(checks.next(), Some(later + CHECK_DELAYS[0]));
    let mut due = checks.due(later + CHECK_DELAYS[0], CONCURRENT_NODES_MAX);
    let (node, lost) = due.remove(0);
    assert_eq!(lost.len(), 2);
    let lost = checks.finish(&node, CheckResult::Lost(lost));
    let expected =
        ["10.244.1.2", "10.244.1.3"].map(|ip| (ObjectKey::new("ns", "web"), ip.parse().expect("IP")));
    assert_eq!(lost, HashSet::from(expected));
    assert_eq!(checks.next(), None);
}

#[tokio::test(start_paused = true)]
async fn numbers_of_nodes_and_endpoints_are_bounded() {
    let (mut checks, now) = (checks(), Instant::now());
    let of_nodes = (0..2 * NODES_MAX).map(|number| departed("10.244.1.2:80", &format!("node-{number}")));
    checks.add(of_nodes.collect(), now);
    assert_eq!(checks.nodes.len(), NODES_MAX);
    let of_one = (0..2 * ENDPOINTS_PER_NODE_MAX)
        .map(|number| departed(&format!("10.{}.{}.9:80", number / 256, number % 256), "node-0"));
    checks.add(of_one.collect(), now);
    let endpoints = &checks.nodes["node-0"].endpoints;
    assert_eq!(endpoints.len(), ENDPOINTS_PER_NODE_MAX);
    assert_eq!(sample(endpoints).len(), PROBES_PER_NODE_MAX);
    let first = checks.due(now + CHECK_DELAYS[0], CONCURRENT_NODES_MAX);
    assert_eq!(first.len(), CONCURRENT_NODES_MAX);
    assert_eq!(checks.next(), Some(now + CHECK_DELAYS[0]), "the others wait");
}

#[tokio::test(start_paused = true)]
async fn invalid_names_of_nodes_are_not_checked() {
    let mut checks = checks();
    for name in ["../secrets", "a?b", "", ".."] {
        checks.add(vec![departed("10.244.1.2:80", name)], Instant::now());
    }
    assert!(checks.nodes.is_empty());
}

#[test]
fn checks_of_nodes_are_spread() {
    let delays: BTreeSet<Duration> = (0..100)
        .map(|number| check_delay(&format!("node-{number}")))
        .collect();
    assert!(delays.len() > 50, "{delays:?}");
    assert!(delays.iter().all(|delay| *delay <= CHECK_DELAY_MAX));
}

#[test]
fn only_nodes_without_heartbeats_are_unreachable() {
    for (node, expected) in [
        (
            json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
            true,
        ),
        (
            json!({"spec": {"taints": [{"key": UNREACHABLE_TAINT, "effect": "NoExecute"}]}}),
            true,
        ),
        (
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
            false,
        ),
        (
            json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
            false,
        ),
        (json!({}), false),
    ] {
        let object: Node = serde_json::from_value(node.clone()).expect("a Node");
        assert_eq!(is_unreachable(&object), expected, "{node}");
    }
}

#[tokio::test]
async fn one_endpoint_that_accepts_or_refuses_is_an_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let open = listener.local_addr().expect("an address").to_string();
    let closed = {
        let listener = TcpListener::bind("127.0.0.2:0").await.expect("a listener");
        listener.local_addr().expect("an address").to_string()
    };
    assert!(answers(None, &endpoints(&[&open, UNANSWERED])).await);
    assert!(answers(None, &endpoints(&[&closed, UNANSWERED])).await);
    assert!(!answers(None, &endpoints(&[])).await);
    for (kind, expected) in [
        (ErrorKind::TimedOut, true),
        (ErrorKind::HostUnreachable, true),
        (ErrorKind::ConnectionRefused, false),
        (ErrorKind::ConnectionReset, false),
        (ErrorKind::PermissionDenied, false),
    ] {
        assert_eq!(means_no_answer(kind), expected, "{kind}");
    }
}

/// A NetworkPolicy that drops connections from nodes to endpoints does not make a running node count as failed.
#[tokio::test]
async fn host_that_refuses_connections_to_the_kubelet_lives() {
    let node = json!({"status": {"addresses": [
        {"type": "Hostname", "address": "node-b"},
        {"type": "InternalIP", "address": "127.0.0.3"},
    ]}});
    let node: Node = serde_json::from_value(node).expect("a Node");
    assert_eq!(
        kubelet_addresses(&node),
        ["127.0.0.3:10250".parse::<SocketAddr>().expect("an address")]
    );
    assert!(answers(Some(&node), &endpoints(&[])).await);
}
