use super::*;
use crate::forward::Forwarder;
use crate::records::{Index, Settings};

fn status() -> Status {
    let zone = Name::from_text("cluster.local").expect("a name");
    let index = Arc::new(Index::new(Settings::of(zone)));
    let client = Client::new(client::Config {
        server: "https://192.0.2.1:6443".to_owned(),
        ..client::Config::default()
    })
    .expect("a client");
    let responder = Responder::new(index, Forwarder::to(Vec::new()));
    Status::new(Arc::new(responder), Some(client))
}

fn uri(text: &str) -> Uri {
    text.parse().expect("a URI")
}

#[test]
fn health_readiness_and_metrics_show_the_state() {
    let status = status();
    assert_eq!(status.health(&uri("/health")).status, StatusCode::OK);
    assert_eq!(
        status.ready(&uri("/ready")).status,
        StatusCode::SERVICE_UNAVAILABLE
    );
    status.responder.zone().live().set_synced();
    assert_eq!(status.ready(&uri("/ready")).status, StatusCode::OK);
    status.set_lameduck();
    for response in [status.health(&uri("/health")), status.ready(&uri("/ready"))] {
        assert_eq!(response.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.body, "lameduck");
    }
    assert_eq!(status.health(&uri("/nothing")).status, StatusCode::NOT_FOUND);
    let metrics = status.metrics(&uri("/metrics")).body;
    assert_eq!(telemetry::validate(&metrics), Ok(()), "{metrics}");
    for line in [
        "portolan_dns_zone_state{state=\"live\"} 1",
        "coredns_panics_total 0",
        "coredns_cache_misses_total{server=\"dns://:53\",view=\"\",zones=\".\"} 0",
        "# TYPE coredns_dns_request_duration_seconds histogram",
        "# TYPE coredns_kubernetes_dns_programming_duration_seconds histogram",
        "# TYPE coredns_kubernetes_rest_client_request_duration_seconds histogram",
        "# TYPE coredns_kubernetes_rest_client_requests_total counter",
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line} is missing in\n{metrics}"
        );
    }
}

#[test]
fn rejects_incomplete_explanation_request() {
    let status = status();
    let code = |text: &str| status.metrics(&uri(text)).status;
    assert_eq!(
        code("/explain?name=a.ns.svc.cluster.local&type=AAAA&from=10.0.0.1"),
        StatusCode::OK
    );
    for invalid in [
        "/explain",
        "/explain?name=a..b",
        "/explain?name=a&type=x",
        "/explain?name=a&from=b",
    ] {
        assert_eq!(code(invalid), StatusCode::BAD_REQUEST, "{invalid}");
    }
}
