use std::sync::Arc;

use bytes::Bytes;
use client::{Body, Exchange, TransportError};
use futures_util::FutureExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};

use super::*;
use crate::cluster::status_file::ComponentStatus;

/// Server with a code for the check of writes, and one for all checks.
fn server(writes_code: u16, all_code: u16) -> Client {
    let exchange: Exchange = Arc::new(move |request: Request<Bytes>| {
        let code = match request.uri().path() {
            "/readyz/etcd-writes" => writes_code,
            _ => all_code,
        };
        async move {
            let body = Full::new(Bytes::from("text")).map_err(TransportError::from);
            let response: Result<Response<Body>, _> =
                Response::builder().status(code).body(body.boxed_unsync());
            response.map_err(TransportError::from)
        }
        .boxed()
    });
    Client::in_process(exchange)
}

#[tokio::test]
async fn readiness_needs_no_right_to_single_checks() {
    for code in [200, 403, 404] {
        check_readyz(&server(code, 200)).await.expect("a ready server");
        check_readyz(&server(code, 500))
            .await
            .expect_err("no ready server");
        check_readyz(&server(code, 403))
            .await
            .expect_err("no ready server");
    }
    let error = check_readyz(&server(500, 500))
        .await
        .expect_err("no ready server");
    assert!(error.to_string().contains("/readyz/etcd-writes"), "{error}");
}

#[test]
fn components_have_lines_with_reasons() {
    let component = |is_running, since_seconds, restarts, reason: Option<&str>| ComponentStatus {
        is_running,
        since_seconds,
        restarts,
        reason: reason.map(str::to_owned),
    };
    let status = ProcessStatus {
        components: [
            ("agent".to_owned(), component(true, 9_400, 0, None)),
            (
                "dns".to_owned(),
                component(false, 9_995, 3, Some("port 53 is in use")),
            ),
        ]
        .into(),
        ..ProcessStatus::default()
    };
    let expected = "COMPONENT    STATE       FOR       RESTARTS  REASON\n\
                    apiserver    ready\n\
                    node         not ready                       the condition Ready of the Node is False; see kubectl describe node\n\
                    agent        running     10m       0\n\
                    dns          restarting  5s        3         port 53 is in use\n";
    let node = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let node: Node = serde_json::from_value(node).expect("a Node");
    let cluster = ClusterHealth {
        api: Ok(()),
        node: check_readiness(&node).map_err(CommandError::from),
    };
    assert_eq!(table(&status, &cluster, 10_000), expected);
}

#[test]
fn json_has_the_state_of_each_component() {
    let dns = ComponentStatus {
        is_running: false,
        since_seconds: 7,
        restarts: 3,
        reason: Some("port 53 is in use".to_owned()),
    };
    let status = ProcessStatus {
        pid: 5,
        kubeconfig: "/d/admin.conf".into(),
        node_name: "n1".to_owned(),
        components: [("dns".to_owned(), dns)].into(),
    };
    let cluster = ClusterHealth {
        api: Ok(()),
        node: Err(CommandError::from(NotReady::NoNode)),
    };
    let expected = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": 5,
        "kubeconfig": "/d/admin.conf",
        "nodeName": "n1",
        "apiserver": {"isReady": true},
        "node": {"isReady": false, "reason": NotReady::NoNode.to_string()},
        "components": [
            {"name": "dns", "isRunning": false, "sinceSeconds": 7, "restarts": 3, "reason": "port 53 is in use"},
        ],
    });
    assert_eq!(document(&status, &cluster), expected);
}

#[test]
fn node_is_ready_by_its_condition() {
    let mut node = Node::default();
    assert_eq!(check_readiness(&node), Err(NotReady::NoCondition));
    let conditions = json!([{"type": "Ready", "status": "True"}]);
    node.status.conditions = serde_json::from_value(conditions).expect("conditions");
    assert_eq!(check_readiness(&node), Ok(()));
}

#[test]
fn findings_are_counted_in_one_line() {
    let line = |errors, warnings| {
        findings_line(&Counts {
            errors,
            warnings,
            forbidden: Vec::new(),
        })
    };
    assert_eq!(line(0, 0), "\nFindings about Services: none\n");
    assert_eq!(
        line(1, 2),
        "\nFindings about Services: 1 error, 2 warnings; `portolan doctor` shows them\n"
    );
}

#[test]
fn kinds_that_the_host_must_not_list_are_named() {
    let counts = Counts {
        forbidden: vec!["Pod", "Event"],
        ..Counts::default()
    };
    assert_eq!(
        findings_line(&counts),
        "\nFindings about Services: none (this host must not list Pod, Event)\n"
    );
}

#[test]
fn json_has_the_numbers_of_findings() {
    let counts = Counts {
        errors: 1,
        warnings: 2,
        forbidden: vec!["Pod"],
    };
    let expected = json!({"errors": 1, "warnings": 2, "forbidden": ["Pod"]});
    assert_eq!(findings_value(&Ok(counts)), expected);
    let failure = Err(CommandError::from("no response"));
    assert_eq!(findings_value(&failure), json!({"reason": "no response"}));
    assert_eq!(
        findings_text(&failure),
        "\nFindings about Services: not examined (no response)\n"
    );
}
