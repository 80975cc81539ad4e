use super::*;
use crate::port_key::Transport;
use crate::settings::ServiceName;

#[test]
fn counts_requests_by_status() {
    let key = PortKey {
        service: ServiceName {
            namespace: "a".into(),
            name: "b".into(),
        },
        port: 80,
        transport: Transport::Tcp,
    };
    let (requests, none) = (RequestMetrics::default(), RequestMetrics::default());
    for code in [200, 200, 503] {
        requests.count(code, Duration::from_millis(20));
    }
    let mut text = MetricsText::default();
    write([(&key, &requests), (&key, &none)].into_iter(), &mut text);
    let text = text.finish();
    assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
    let labels = "namespace=\"a\",service=\"b\",port=\"80\"";
    for line in [
        format!("portolan_edge_requests_total{{{labels},code=\"200\"}} 2\n"),
        format!("portolan_edge_requests_total{{{labels},code=\"503\"}} 1\n"),
        format!("portolan_edge_request_duration_seconds_bucket{{{labels},le=\"0.01\"}} 0\n"),
        format!("portolan_edge_request_duration_seconds_bucket{{{labels},le=\"0.025\"}} 3\n"),
        format!("portolan_edge_request_duration_seconds_count{{{labels}}} 3\n"),
    ] {
        assert!(text.contains(&line), "{line}{text}");
    }
}
