//! Metrics of requests under client-go's names (DNS-27). The client has no rate limiter, so the metrics of one are absent.

use telemetry::{MetricType, MetricsText};

use crate::counters::{REQUEST_BOUNDS_SECONDS, Requests};

/// Label value of requests without a response.
const NO_RESPONSE: &str = "<error>";

impl Requests {
    /// Writes `PREFIXrest_client_requests_total` and `PREFIXrest_client_request_duration_seconds`. `server` is the URL of
    /// the API server.
    pub(crate) fn write(&self, text: &mut MetricsText, prefix: &str, server: &str) {
        let host = server.split_once("://").map_or(server, |(_, host)| host);
        let name = format!("{prefix}rest_client_requests_total");
        text.family(
            &name,
            MetricType::Counter,
            "Number of HTTP requests, partitioned by status code, method, and host.",
        );
        for ((method, code), count) in &self.ended {
            let code = code.map_or_else(|| NO_RESPONSE.to_owned(), |code| code.to_string());
            let labels = format!("code=\"{code}\",host=\"{host}\",method=\"{method}\"");
            text.sample(&name, &labels, count);
        }
        let name = format!("{prefix}rest_client_request_duration_seconds");
        text.family(
            &name,
            MetricType::Histogram,
            "Request latency in seconds. Broken down by verb and host.",
        );
        for (method, durations) in &self.durations {
            let labels = format!("host=\"{host}\",verb=\"{method}\"");
            text.buckets(
                &name,
                &labels,
                &REQUEST_BOUNDS_SECONDS,
                &durations.counts,
                durations.sum_seconds,
            );
        }
    }
}

#[cfg(test)]
mod tests;
