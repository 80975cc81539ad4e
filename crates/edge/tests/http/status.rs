//! Status of ports: clients, backends and reasons of failures.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use edge::settings::{HealthCheck, HealthProbe};
use serde_json::{Value, json};

use crate::backend::{Backend, OK};
use crate::client::{assert_status, get};
use crate::served::{Served, service};

/// Loopback address without a listener, with a port below those that the kernel assigns.
const REFUSING: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(127, 0, 0, 98)), 9);

/// Longest wait for a condition; only a failing test waits so long.
const TIMEOUT: Duration = Duration::from_secs(60);

fn status(served: &Served) -> Value {
    let status = serde_json::to_value(served.edge.status()).unwrap();
    assert_eq!(status.as_array().map(Vec::len), Some(1), "{status}");
    status[0].clone()
}

/// Returns the status of an edge once a condition holds.
fn status_when(served: &Served, is_so: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + TIMEOUT;
    loop {
        let observed = status(served);
        if is_so(&observed) {
            return observed;
        }
        assert!(Instant::now() < end, "{observed:#}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn status_describes_clients_and_backends() {
    let backend = Backend::answering(OK);
    let mut service = service(&[REFUSING, backend.address]);
    service.listeners[0].backends[1].is_ready = false;
    service.listeners[0].backends[1].is_serving_while_terminating = true;
    let mut served = Served::new(service);
    // Both are tried until the refusing one is ejected.
    for _ in 0..4 {
        assert_status(&get(served.address, "/"), 200);
    }
    let observed = status(&served);
    for (key, value) in [
        ("namespace", json!("shop")),
        ("service", json!("web")),
        ("port", json!(served.address.port())),
        ("protocol", json!("tcp")),
        ("frontend", json!("http")),
        ("addresses", json!(["127.0.0.1"])),
        ("connections", json!(4)),
        ("refused", json!({})),
        ("lostLogLines", json!(0)),
        ("faults", json!([])),
    ] {
        assert_eq!(observed[key], value, "{key}: {observed:#}");
    }
    assert!(observed["sentBytes"].as_u64() > Some(0), "{observed:#}");
    let [refusing, terminating] = &observed["backends"].as_array().unwrap()[..] else {
        panic!("{observed:#}")
    };
    assert_eq!(refusing["state"], "ejected");
    assert_eq!(refusing["failures"], 3);
    assert!(
        refusing["lastFailure"]["reason"]
            .as_str()
            .unwrap()
            .contains("127.0.0.98:9"),
        "{observed:#}"
    );
    assert_eq!(terminating["state"], "terminating");
    assert_eq!(terminating["connections"], 4);
    assert_eq!(terminating.get("lastFailure"), None);

    served.service.policy.source_ranges = vec!["192.0.2.0/24".parse().unwrap()];
    served.service.listeners[0].backends.remove(0);
    served.service.listeners[0].backends[0].is_ready = true;
    served.apply();
    get(served.address, "/");
    // The client may see its reset before the edge has counted it.
    let observed = status_when(&served, |observed| {
        observed["refused"] == json!({"source_range": 1})
    });
    assert_eq!(observed["backends"][0]["state"], "healthy");
}

#[test]
fn failed_check_has_a_reason() {
    let mut service = service(&[REFUSING]);
    service.policy.health_check = Some(HealthCheck {
        probe: HealthProbe::Tcp,
        port: None,
        interval: Duration::from_millis(100),
        timeout: Duration::from_secs(5),
        healthy_threshold: 1,
        unhealthy_threshold: 1,
    });
    let served = Served::new(service);
    let observed = status_when(&served, |observed| {
        observed["backends"][0]["state"] == "unhealthy"
    });
    let reason = observed["backends"][0]["lastFailure"]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("health check: connection to backend 127.0.0.98:9"),
        "{reason}"
    );
}
