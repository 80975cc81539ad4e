//! Metrics of all ports in the text format of Prometheus.

use std::collections::BTreeMap;
use std::sync::Arc;

use telemetry::{MetricType, MetricsText};

use crate::admission::ProcessConnections;
use crate::backends::Backend;
use crate::http::request_metrics;
use crate::log::Logs;
use crate::port::Port;
use crate::refusal::ConnectionRefusal;

/// Returns the metrics of these ports, of all connections of the process, and of access logs.
pub(crate) fn metrics_text(ports: &[Arc<Port>], connections: &ProcessConnections, logs: &Logs) -> String {
    let mut text = MetricsText::default();
    let labels: Vec<String> = ports.iter().map(|port| labels(port)).collect();
    let mut each = |name: &str, metric_type: MetricType, help: &str, value: &dyn Fn(&Port) -> u64| {
        text.family(name, metric_type, help);
        for (port, labels) in ports.iter().zip(&labels) {
            text.sample(name, labels, value(port));
        }
    };
    each(
        "portolan_edge_connections_total",
        MetricType::Counter,
        "Number of connections and UDP flows accepted, including those refused afterwards.",
        &|port| port.counters.connections(),
    );
    each(
        "portolan_edge_connections",
        MetricType::Gauge,
        "Number of open connections and UDP flows.",
        &|port| port.counters.open(),
    );
    each(
        "portolan_edge_received_bytes_total",
        MetricType::Counter,
        "Number of bytes received from clients.",
        &|port| port.counters.bytes().0,
    );
    each(
        "portolan_edge_sent_bytes_total",
        MetricType::Counter,
        "Number of bytes sent to clients.",
        &|port| port.counters.bytes().1,
    );
    each(
        "portolan_edge_tls_handshakes_total",
        MetricType::Counter,
        "Number of completed TLS handshakes with clients.",
        &|port| port.counters.handshakes().0,
    );
    each(
        "portolan_edge_tls_resumptions_total",
        MetricType::Counter,
        "Number of completed TLS handshakes that resumed a session.",
        &|port| port.counters.handshakes().1,
    );
    write_refusals(&mut text, ports, &labels);
    request_metrics::write(
        ports.iter().map(|port| (&port.key, &port.counters.requests)),
        &mut text,
    );
    write_backends(&mut text, ports, &labels);
    write_certificates(&mut text, ports, &labels);
    write_process(&mut text, connections);
    logs.write_metrics(&mut text);
    text.finish()
}

fn labels(port: &Port) -> String {
    let service = &port.key.service;
    format!(
        "namespace=\"{}\",service=\"{}\",port=\"{}\",protocol=\"{}\"",
        service.namespace,
        service.name,
        port.key.port,
        port.key.transport.name()
    )
}

fn write_refusals(text: &mut MetricsText, ports: &[Arc<Port>], labels: &[String]) {
    let name = "portolan_edge_refused_total";
    text.family(
        name,
        MetricType::Counter,
        "Number of connections and requests refused, by reason.",
    );
    for (port, labels) in ports.iter().zip(labels) {
        for refusal in ConnectionRefusal::ALL {
            let labels = format!("{labels},reason=\"{}\"", refusal.reason());
            text.sample(name, &labels, port.counters.refusals(refusal));
        }
    }
}

fn write_process(text: &mut MetricsText, connections: &ProcessConnections) {
    text.single(
        "portolan_edge_process_connections",
        MetricType::Gauge,
        "Number of open connections, UDP flows and further requests of HTTP/2 connections, of all ports.",
        connections.open(),
    );
    text.single(
        "portolan_edge_process_connections_max",
        MetricType::Gauge,
        "Number of connections, UDP flows and further requests that may be open at once.",
        connections.open_max(),
    );
}

fn write_certificates(text: &mut MetricsText, ports: &[Arc<Port>], labels: &[String]) {
    let name = "portolan_edge_certificate_expiration_timestamp_seconds";
    text.family(
        name,
        MetricType::Gauge,
        "Time at which a served certificate expires, in seconds since 1970. 'certificate' is its Secret.",
    );
    for (port, labels) in ports.iter().zip(labels) {
        let policy = port.policy.load();
        // A port may name a certificate twice.
        let expirations: BTreeMap<&str, i64> = policy.tls.iter().flat_map(|tls| tls.expirations()).collect();
        for (source, unix_seconds) in expirations {
            text.sample(name, &format!("{labels},certificate=\"{source}\""), unix_seconds);
        }
    }
}

fn write_backends(text: &mut MetricsText, ports: &[Arc<Port>], labels: &[String]) {
    let mut each = |name: &str, metric_type: MetricType, help: &str, value: fn(&Backend) -> u64| {
        text.family(name, metric_type, help);
        for (port, labels) in ports.iter().zip(labels) {
            for backend in port.policy.backends().all() {
                let labels = format!("{labels},backend=\"{}\"", backend.address);
                text.sample(name, &labels, value(&backend));
            }
        }
    };
    each(
        "portolan_edge_backend_healthy",
        MetricType::Gauge,
        "1 if a backend is healthy, otherwise 0.",
        |backend| backend.is_healthy().into(),
    );
    each(
        "portolan_edge_backend_chosen_total",
        MetricType::Counter,
        "Number of connections and requests for which a backend was chosen.",
        Backend::connections,
    );
    each(
        "portolan_edge_backend_under_way",
        MetricType::Gauge,
        "Number of open connections and requests of a backend.",
        |backend| backend.open_connections_and_requests() as u64,
    );
    each(
        "portolan_edge_backend_failures_total",
        MetricType::Counter,
        "Number of failed connections to a backend.",
        Backend::failures,
    );
}
