use serde_json::json;
use tokio::net::TcpListener;

use super::*;

fn departed(endpoint: &str, node: &str) -> Departed {
    Departed {
        endpoint: endpoint.parse().expect("an address"),
        node: node.into(),
    }
}

fn nodes(due: &[(Arc<str>, BTreeSet<SocketAddr>)]) -> Vec<&str> {
    due.iter().map(|(node, _)| &**node).collect()
}

#[tokio::test(start_paused = true)]
async fn node_is_checked_at_each_delay_and_then_no_more() {
    let (mut checks, begin) = (Checks::default(), Instant::now());
    checks.add(vec![departed("10.244.1.2:80", "node-b")], begin);
    for delay in CHECK_DELAYS {
        assert_eq!(checks.next(), Some(begin + delay));
        assert_eq!(
            nodes(&checks.due(begin + delay - Duration::from_millis(1))),
            [""; 0]
        );
        assert_eq!(nodes(&checks.due(begin + delay)), ["node-b"]);
    }
    assert_eq!(checks.next(), None);
    assert!(checks.0.is_empty());
}

#[tokio::test(start_paused = true)]
async fn later_endpoint_begins_the_checks_of_its_node_again() {
    let (mut checks, begin) = (Checks::default(), Instant::now());
    checks.add(vec![departed("10.244.1.2:80", "node-b")], begin);
    checks.due(begin + CHECK_DELAYS[0]);
    let later = begin + Duration::from_secs(5);
    checks.add(vec![departed("10.244.1.3:80", "node-b")], later);
    assert_eq!(checks.next(), Some(later + CHECK_DELAYS[0]));
    let due = checks.due(later + CHECK_DELAYS[0]);
    assert_eq!(due[0].1.len(), 2);
    checks.remove(&due[0].1.iter().map(SocketAddr::ip).collect());
    assert_eq!(checks.next(), None);
}

#[tokio::test(start_paused = true)]
async fn numbers_of_nodes_and_endpoints_are_bounded() {
    let (mut checks, now) = (Checks::default(), Instant::now());
    let of_nodes = (0..2 * NODES_MAX).map(|number| departed("10.244.1.2:80", &format!("node-{number}")));
    checks.add(of_nodes.collect(), now);
    assert_eq!(checks.0.len(), NODES_MAX);
    let of_one = (0..2 * ENDPOINTS_PER_NODE_MAX)
        .map(|number| departed(&format!("10.{}.{}.9:80", number / 256, number % 256), "node-0"));
    checks.add(of_one.collect(), now);
    assert_eq!(checks.0["node-0"].endpoints.len(), ENDPOINTS_PER_NODE_MAX);
}

#[tokio::test(start_paused = true)]
async fn invalid_names_of_nodes_are_not_checked() {
    let mut checks = Checks::default();
    for name in ["../secrets", "a?b", "", ".."] {
        checks.add(vec![departed("10.244.1.2:80", name)], Instant::now());
    }
    assert!(checks.0.is_empty());
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
async fn endpoints_that_accept_or_refuse_are_not_silent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let open = listener.local_addr().expect("an address");
    let closed = {
        let listener = TcpListener::bind("127.0.0.2:0").await.expect("a listener");
        listener.local_addr().expect("an address")
    };
    assert_eq!(silent(vec![open, closed]).await, HashSet::new());
    for (kind, expected) in [
        (ErrorKind::TimedOut, true),
        (ErrorKind::HostUnreachable, true),
        (ErrorKind::ConnectionRefused, false),
        (ErrorKind::ConnectionReset, false),
        (ErrorKind::PermissionDenied, false),
    ] {
        assert_eq!(means_silence(kind), expected, "{kind}");
    }
}
