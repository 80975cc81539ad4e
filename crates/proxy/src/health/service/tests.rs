use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

fn free_port() -> u16 {
    let socket = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    socket.local_addr().expect("its address").port()
}

fn request(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream
        .write_all(b"GET /any HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Polls until the response is as desired; the servers follow the state with a short delay.
async fn eventually(port: u16, desired: impl Fn(Option<&str>) -> bool) {
    for _ in 0..500 {
        let answer = tokio::task::spawn_blocking(move || request(port))
            .await
            .expect("no panic");
        if desired(answer.as_deref()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the wanted answer did not come");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_check_ports_follow_services() {
    let (checks, health) = (Arc::new(ServiceChecks::default()), Arc::new(Health::default()));
    checks.listen_on(Some(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]));
    let server = tokio::spawn(serve_service_checks(
        checks.clone(),
        health.clone(),
        Events::discarding(),
    ));
    let (service, port) = (ObjectKey::new("ns", "web"), free_port());

    checks.set(
        &service,
        "uid-1",
        Some(HealthCheck {
            port,
            local_endpoints: 2,
        }),
    );
    eventually(port, |answer| {
        answer.is_some_and(|answer| {
            answer.starts_with("HTTP/1.1 200")
                && answer.contains("x-load-balancing-endpoint-weight: 2\r\n")
                && answer.contains("content-type: application/json\r\n")
                && answer.ends_with(
                    r#"{"service":{"namespace":"ns","name":"web"},"localEndpoints":2,"serviceProxyHealthy":true}"#,
                )
        })
    })
    .await;

    checks.set(
        &service,
        "uid-1",
        Some(HealthCheck {
            port,
            local_endpoints: 0,
        }),
    );
    eventually(port, |answer| {
        answer.is_some_and(|answer| answer.starts_with("HTTP/1.1 503"))
    })
    .await;

    checks.set(
        &service,
        "uid-1",
        Some(HealthCheck {
            port,
            local_endpoints: 1,
        }),
    );
    eventually(port, |answer| {
        answer.is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
    })
    .await;
    health.set_sync_period(Duration::ZERO);
    health.queued(Moment::now());
    eventually(port, |answer| {
        answer.is_some_and(|answer| answer.contains("\"serviceProxyHealthy\":false"))
    })
    .await;

    checks.set(&service, "uid-1", None);
    eventually(port, |answer| answer.is_none()).await;
    server.abort();
}
