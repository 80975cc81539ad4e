use std::time::Duration;

use super::*;
use crate::request::route::Target;

fn label() -> Label {
    let services = kind::find("", "v1", "services").unwrap();
    let target = Target::object(services, "default", "web").with_subresource("status");
    Label::new(&target, "PATCH", true)
}

#[test]
fn counts_requests_by_resource_and_verb() {
    let metrics = Metrics::default();
    metrics
        .requests
        .completed(label(), 200, Duration::from_millis(3), Some(1500));
    metrics
        .requests
        .completed(label(), 409, Duration::from_secs(100), None);
    let mut text = MetricsText::default();
    metrics.requests.write_metrics(&mut text);
    let text = text.finish();
    assert_eq!(telemetry::validate(&text), Ok(()), "{text}");
    let labels = "component=\"apiserver\",dry_run=\"All\",group=\"\",resource=\"services\",scope=\"resource\",\
                  subresource=\"status\",verb=\"PATCH\",version=\"v1\"";
    let sized = labels.replace("dry_run=\"All\",", "");
    for line in [
        format!("apiserver_request_total{{code=\"200\",{labels}}} 1\n"),
        format!("apiserver_request_total{{code=\"409\",{labels}}} 1\n"),
        format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"0.005\"}} 1\n"),
        format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"60\"}} 1\n"),
        format!("apiserver_request_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 2\n"),
        format!("apiserver_response_sizes_bucket{{{sized},le=\"1000\"}} 0\n"),
        format!("apiserver_response_sizes_bucket{{{sized},le=\"10000\"}} 1\n"),
        format!("apiserver_response_sizes_sum{{{sized}}} 1500\n"),
    ] {
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
}

#[test]
fn in_flight_requests_are_counted_until_they_end() {
    let metrics = Metrics::default();
    let (one, two) = (metrics.begin(true), metrics.begin(false));
    assert_eq!(metrics.reading.load(Ordering::Relaxed), 1);
    drop((one, two));
    assert_eq!(metrics.reading.load(Ordering::Relaxed), 0);
    assert_eq!(metrics.writing.load(Ordering::Relaxed), 0);
}

#[test]
fn counts_watches_by_kind() {
    let counts = watches::WatchCounts::default();
    let services = kind::find("", "v1", "services").unwrap();
    counts.add_watches(services, 1);
    counts.add_events(services, 3);
    let mut text = MetricsText::default();
    counts.write_metrics(&mut text);
    let text = text.finish();
    let expected = "apiserver_watch_events_total{group=\"\",resource=\"services\",version=\"v1\"} 3\n";
    assert!(text.contains(expected), "{text}");
}
