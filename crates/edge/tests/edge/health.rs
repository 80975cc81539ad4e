//! Health checks of backends.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use edge::settings::{Frontend, HealthCheck, HealthProbe, ProxyVersion};

use crate::fixture::{Fixture, backend, first_line, named, service, unused_address, wait_until};

fn check(probe: HealthProbe) -> HealthCheck {
    HealthCheck {
        probe,
        port: None,
        interval: Duration::from_millis(100),
        timeout: Duration::from_secs(5),
        healthy_threshold: 2,
        unhealthy_threshold: 2,
    }
}

fn http(path: &str) -> HealthProbe {
    HealthProbe::Http {
        is_https: false,
        path: path.into(),
        host: Some("shop.test".into()),
        expected_statuses: vec![(200, 299), (404, 404)],
    }
}

fn healthy(fixture: &Fixture, backend: SocketAddr) -> Option<u64> {
    fixture.metric("portolan_edge_backend_healthy", &backend.to_string())
}

/// Returns a server whose responses have the status in `status`. With `wants_header`, it expects a PROXY line
/// before each request.
fn web(status: &Arc<AtomicU16>, wants_header: bool) -> SocketAddr {
    let status = status.clone();
    backend(move |stream| {
        let (mut line, reader) = first_line(stream)?;
        let mut stream = reader.get_ref().try_clone()?;
        let mut lines = io::BufRead::lines(reader);
        if wants_header {
            if !line.starts_with("PROXY ") {
                return Ok(());
            }
            line = lines.next().transpose()?.unwrap_or_default();
        }
        let is_probed = line.starts_with("GET /ready?full=1 HTTP/1.1");
        let mut has_host = false;
        for line in lines {
            let line = line?;
            has_host |= line.eq_ignore_ascii_case("host: shop.test");
            if line.is_empty() {
                break;
            }
        }
        let status = if is_probed && has_host {
            status.load(Ordering::Relaxed)
        } else {
            500
        };
        stream.write_all(format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n").as_bytes())
    })
}

#[test]
fn failing_tcp_check_removes_a_backend() {
    let (running, failing) = (named("running"), unused_address());
    let mut settings = service(Frontend::Tcp, &[running, failing]);
    settings.policy.health_check = Some(check(HealthProbe::Tcp));
    let mut fixture = Fixture::new(settings);
    wait_until("the check fails", || healthy(&fixture, failing) == Some(0));
    assert_eq!(healthy(&fixture, running), Some(1));
    let failures = || fixture.metric("portolan_edge_backend_failures_total", &failing.to_string());
    let before = failures();
    for _ in 0..6 {
        assert_eq!(fixture.chosen_backend().expect("a backend"), "running");
    }
    assert_eq!(failures(), before);
    fixture.service.policy.health_check = None;
    fixture.apply();
    wait_until("the backend counts as healthy", || {
        healthy(&fixture, failing) == Some(1)
    });
}

#[test]
fn http_check_uses_statuses_and_thresholds() {
    for wants_header in [false, true] {
        let status = Arc::new(AtomicU16::new(204));
        let server = web(&status, wants_header);
        let mut settings = service(Frontend::Tcp, &[server]);
        settings.policy.health_check = Some(check(http("/ready?full=1")));
        settings.policy.proxy_protocol_to_backends = wants_header.then_some(ProxyVersion::V1);
        let fixture = Fixture::new(settings);
        assert_eq!(healthy(&fixture, server), Some(1));
        status.store(503, Ordering::Relaxed);
        wait_until("the check fails", || healthy(&fixture, server) == Some(0));
        status.store(404, Ordering::Relaxed);
        wait_until("the backend is healthy", || healthy(&fixture, server) == Some(1));
    }
}

#[test]
fn tls_check_fails_without_tls() {
    let plain = named("plain");
    let mut settings = service(Frontend::Tcp, &[plain]);
    settings.policy.health_check = Some(check(HealthProbe::Ssl));
    let fixture = Fixture::new(settings);
    wait_until("the check fails", || healthy(&fixture, plain) == Some(0));
    // The only backend is used although it is unhealthy.
    assert_eq!(fixture.chosen_backend().expect("a backend"), "plain");
}
