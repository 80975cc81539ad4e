//! Requests to the API server, under the names of CoreDNS' kubernetes plugin (DNS-27). There is no limit on their
//! rate, so no time is spent waiting for one.

use client::{Client, REQUEST_BOUNDS_SECONDS};
use telemetry::{Counted, Text};

/// Writes what a client has counted.
pub(crate) fn write(text: &mut Text, client: &Client) {
    let requests = client.requests();
    let host = client.server();
    let host = host.split_once("://").map_or(host, |(_, host)| host);
    let name = "coredns_kubernetes_rest_client_requests_total";
    text.family(name, Counted::Counter);
    for ((method, code), count) in &requests.ended {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let labels = format!("code=\"{code}\",host=\"{host}\",method=\"{method}\"");
        text.sample(name, &labels, count);
    }
    let name = "coredns_kubernetes_rest_client_request_duration_seconds";
    text.family(name, Counted::Histogram);
    for (method, durations) in &requests.durations {
        let labels = format!("host=\"{host}\",verb=\"{method}\"");
        text.histogram(
            name,
            &labels,
            &REQUEST_BOUNDS_SECONDS,
            &durations.counts,
            durations.sum_seconds,
        );
    }
}
