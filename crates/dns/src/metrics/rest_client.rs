//! Metrics of requests to the API server, with the names and help texts of CoreDNS' kubernetes plugin (DNS-27).
//!
//! The client has no rate limiter, so the metrics of the rate limiter are absent.

use client::{Client, REQUEST_BOUNDS_SECONDS};
use telemetry::{MetricType, MetricsText};

/// Writes the metrics of a client.
pub(crate) fn write(text: &mut MetricsText, client: &Client) {
    let requests = client.requests();
    let host = client.server();
    let host = host.split_once("://").map_or(host, |(_, host)| host);
    let name = "coredns_kubernetes_rest_client_requests_total";
    text.family(
        name,
        MetricType::Counter,
        "Number of HTTP requests, partitioned by status code, method, and host.",
    );
    for ((method, code), count) in &requests.ended {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let labels = format!("code=\"{code}\",host=\"{host}\",method=\"{method}\"");
        text.sample(name, &labels, count);
    }
    let name = "coredns_kubernetes_rest_client_request_duration_seconds";
    text.family(
        name,
        MetricType::Histogram,
        "Request latency in seconds. Broken down by verb and host.",
    );
    for (method, durations) in &requests.durations {
        let labels = format!("host=\"{host}\",verb=\"{method}\"");
        text.buckets(
            name,
            &labels,
            &REQUEST_BOUNDS_SECONDS,
            &durations.counts,
            durations.sum_seconds,
        );
    }
}
