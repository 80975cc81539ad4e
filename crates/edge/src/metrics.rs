//! Metrics of all ports in Prometheus' text format.

use std::sync::Arc;

use telemetry::{Counted, Text};

use crate::backends::Backend;
use crate::counters::Refusal;
use crate::http;
use crate::log::Logs;
use crate::port::Port;

/// The metrics of these ports, and of access logs.
pub(crate) fn text(ports: &[Arc<Port>], logs: &Logs) -> String {
    let mut text = Text::default();
    let labels: Vec<String> = ports.iter().map(|port| labels(port)).collect();
    let mut each = |name: &str, counted: Counted, value: &dyn Fn(&Port) -> u64| {
        text.family(name, counted);
        for (port, labels) in ports.iter().zip(&labels) {
            text.sample(name, labels, value(port));
        }
    };
    each("portolan_edge_connections_total", Counted::Counter, &|port| {
        port.counters().connections()
    });
    each("portolan_edge_connections", Counted::Gauge, &|port| {
        port.counters().open()
    });
    each("portolan_edge_received_bytes_total", Counted::Counter, &|port| {
        port.counters().bytes().0
    });
    each("portolan_edge_sent_bytes_total", Counted::Counter, &|port| {
        port.counters().bytes().1
    });
    each("portolan_edge_tls_handshakes_total", Counted::Counter, &|port| {
        port.counters().handshakes().0
    });
    each("portolan_edge_tls_resumptions_total", Counted::Counter, &|port| {
        port.counters().handshakes().1
    });
    refusals(&mut text, ports, &labels);
    http::metrics(ports.iter().map(|port| (&port.key, port.requests())), &mut text);
    backends(&mut text, ports, &labels);
    logs.metrics(&mut text);
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

fn refusals(text: &mut Text, ports: &[Arc<Port>], labels: &[String]) {
    let name = "portolan_edge_refused_total";
    text.family(name, Counted::Counter);
    for (port, labels) in ports.iter().zip(labels) {
        for why in Refusal::ALL {
            let labels = format!("{labels},reason=\"{}\"", why.reason());
            text.sample(name, &labels, port.counters().refusals(why));
        }
    }
}

fn backends(text: &mut Text, ports: &[Arc<Port>], labels: &[String]) {
    let mut each = |name: &str, counted: Counted, value: fn(&Backend) -> u64| {
        text.family(name, counted);
        for (port, labels) in ports.iter().zip(labels) {
            for backend in port.backends().all() {
                let labels = format!("{labels},backend=\"{}\"", backend.address);
                text.sample(name, &labels, value(&backend));
            }
        }
    };
    each("portolan_edge_backend_healthy", Counted::Gauge, |backend| {
        backend.is_healthy().into()
    });
    each(
        "portolan_edge_backend_chosen_total",
        Counted::Counter,
        Backend::connections,
    );
    each("portolan_edge_backend_under_way", Counted::Gauge, |backend| {
        backend.under_way() as u64
    });
    each(
        "portolan_edge_backend_failures_total",
        Counted::Counter,
        Backend::failures,
    );
}
