use std::time::Duration;

use http::Method;

use super::*;
use crate::counters::Counters;

#[test]
fn requests_have_the_labels_of_client_go() {
    let counters = Counters::default();
    counters.count(&Method::GET, Some(200), Duration::from_millis(7));
    counters.count(&Method::POST, None, Duration::from_secs(20));
    let mut text = MetricsText::default();
    counters.read().write(&mut text, "", "https://192.0.2.1:6443");
    let text = text.finish();
    assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
    for line in [
        "rest_client_requests_total{code=\"200\",host=\"192.0.2.1:6443\",method=\"GET\"} 1",
        "rest_client_requests_total{code=\"<error>\",host=\"192.0.2.1:6443\",method=\"POST\"} 1",
        "rest_client_request_duration_seconds_bucket{host=\"192.0.2.1:6443\",verb=\"GET\",le=\"0.01\"} 1",
        "rest_client_request_duration_seconds_sum{host=\"192.0.2.1:6443\",verb=\"POST\"} 20",
    ] {
        assert!(
            text.lines().any(|candidate| candidate == line),
            "no line {line} in\n{text}"
        );
    }
}
