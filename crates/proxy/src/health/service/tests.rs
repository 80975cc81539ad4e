use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

fn free_port() -> u16 {
    let socket = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    socket.local_addr().expect("its address").port()
}

fn request(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream
        .write_all(b"GET /any HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Polls until the response is as desired; the servers follow the state with a short delay.
async fn eventually(port: u16, desired: impl Fn(Option<&str>) -> bool) {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    for _ in 0..500 {
        let answer = tokio::task::spawn_blocking(move || request(address))
            .await
            .expect("no panic");
        if desired(answer.as_deref()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the expected response did not arrive");
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
            local_endpoints: [Some(2), None],
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
            local_endpoints: [Some(0), None],
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
            local_endpoints: [Some(1), None],
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

/// As in kube-proxy, which has a server for each family (`NewDualStackProxier` in `pkg/proxy/nftables/proxier.go`,
/// `newServiceHealthServer` in `pkg/proxy/healthcheck/service_health.go`).
#[test]
fn each_family_reports_its_own_endpoints() {
    let (checks, service) = (ServiceChecks::default(), ObjectKey::new("ns", "web"));
    let status = |local_endpoints: [Option<usize>; 2], address: &str| {
        let check = HealthCheck {
            port: 30_100,
            local_endpoints,
        };
        checks.set(&service, "uid-1", Some(check));
        let answer = checks.answer(&service, address.parse().expect("an address"), true);
        let weight = answer.headers.into_iter().map(|(_, value)| value).next();
        (answer.status.as_u16(), weight)
    };
    let weighted = |status: u16, weight: &str| (status, Some(weight.to_owned()));
    let dual = [Some(2), Some(0)];
    assert_eq!(status(dual, "172.30.0.11"), weighted(200, "2"));
    assert_eq!(status(dual, "fd00:30::11"), weighted(503, "0"));
    assert_eq!(status(dual, "0.0.0.0"), weighted(200, "2"));
    assert_eq!(status(dual, "::"), weighted(503, "0"));
    assert_eq!(status([Some(1), None], "fd00:30::11"), (404, None));
    assert_eq!(status([None, Some(1)], "0.0.0.0"), (404, None));
    assert_eq!(status([None, Some(1)], "::"), weighted(200, "1"));
}

fn servers(checks: Arc<ServiceChecks>) -> Servers {
    Servers {
        tasks: JoinSet::new(),
        open: BTreeMap::new(),
        connections_max: Arc::default(),
        listen: listen_in_family,
        checks,
        health: Arc::default(),
        events: Events::discarding(),
    }
}

#[tokio::test]
async fn servers_listen_in_the_families_of_their_service() {
    let (service, port) = (ObjectKey::new("ns", "web"), free_port());
    let checks = Arc::new(ServiceChecks::default());
    // Not in the order of addresses, as with a loopback address behind those of IPv6.
    let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let other = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), port));
    checks.listen_on(Some(vec![
        other.ip(),
        "::1".parse().expect("an address"),
        v4.ip(),
    ]));
    let check = HealthCheck {
        port,
        local_endpoints: [Some(1), None],
    };
    checks.set(&service, "uid-1", Some(check));
    let mut servers = servers(checks);
    // The second pass keeps the servers of the first one.
    for _ in 0..2 {
        assert!(servers.reconcile().await);
        assert_eq!(open(&servers), [v4, other]);
        assert!(servers.open.values().all(|server| !server.is_finished()));
    }
}

/// The addresses of the open servers, in order.
fn open(servers: &Servers) -> Vec<SocketAddr> {
    servers.open.keys().map(|(_, address)| *address).collect()
}

/// Without `--nodeport-addresses`, as in the modes iptables and ipvs. kube-proxy since 1.36 has a socket for each family
/// (kubernetes/kubernetes#137370).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_family_has_a_server_at_all_addresses() {
    if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        eprintln!("skipped: each_family_has_a_server_at_all_addresses: the host has no IPv6");
        return;
    }
    let (checks, service, port) = (
        Arc::new(ServiceChecks::default()),
        ObjectKey::new("ns", "web"),
        free_port(),
    );
    let [v4, v6] = ALL_ADDRESSES.map(|address| SocketAddr::new(address, port));
    let mut servers = servers(checks.clone());
    for (local_endpoints, desired) in [
        ([Some(2), Some(1)], vec![v4, v6]),
        ([Some(2), None], vec![v4]),
        ([None, Some(1)], vec![v6]),
    ] {
        let check = HealthCheck {
            port,
            local_endpoints,
        };
        checks.set(&service, "uid-1", Some(check));
        assert!(servers.reconcile().await);
        assert_eq!(open(&servers), desired);
        let answers = tokio::task::spawn_blocking(move || {
            let loopback: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            loopback.map(|ip| request(SocketAddr::new(ip, port)))
        });
        let answers = answers.await.expect("no panic");
        for (answer, count) in answers.iter().zip(local_endpoints) {
            let weight = count.map(|count| format!("x-load-balancing-endpoint-weight: {count}\r\n"));
            match (answer, weight) {
                (Some(answer), Some(weight)) => assert!(answer.contains(&weight), "{answer}"),
                (answer, weight) => {
                    assert!(answer.is_none() && weight.is_none(), "{answer:?} for {weight:?}")
                }
            }
        }
    }
}

#[tokio::test]
async fn host_without_ipv6_serves_ipv4() {
    let (checks, service, port) = (
        Arc::new(ServiceChecks::default()),
        ObjectKey::new("ns", "web"),
        free_port(),
    );
    let check = HealthCheck {
        port,
        local_endpoints: [Some(1), Some(1)],
    };
    checks.set(&service, "uid-1", Some(check));
    let mut servers = Servers {
        listen: |address| match address {
            SocketAddr::V4(_) => listen_in_family(address),
            SocketAddr::V6(_) => Err(rustix::io::Errno::AFNOSUPPORT.into()),
        },
        ..servers(checks)
    };
    assert!(servers.reconcile().await, "nothing to retry");
    assert_eq!(open(&servers), [SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))]);
}

#[tokio::test]
async fn port_of_a_deleted_service_is_free_for_another_one() {
    let checks = Arc::new(ServiceChecks::default());
    checks.listen_on(Some(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]));
    let check = HealthCheck {
        port: free_port(),
        local_endpoints: [Some(1), None],
    };
    let mut servers = servers(checks.clone());
    let (former, next) = (ObjectKey::new("ns", "former"), ObjectKey::new("ns", "next"));
    checks.set(&former, "uid-1", Some(check));
    assert!(servers.reconcile().await);
    checks.set(&former, "uid-1", None);
    checks.set(&next, "uid-2", Some(check));
    assert!(servers.reconcile().await, "the port is free");
    assert!(servers.open.keys().all(|(service, _)| *service == next));
}

/// Otherwise, a tenant with thousands of Services could make each node hold hundreds of thousands of connections.
#[test]
fn many_health_check_ports_share_the_connections() {
    let of_each = |servers| connections_of_each(servers, u64::MAX);
    assert_eq!([0, 1, 64].map(of_each), [CONNECTIONS_MAX; 3]);
    for servers in [100, 1_000, 2_768] {
        let of_each = of_each(servers);
        let all = of_each * servers;
        assert!(of_each >= CONNECTIONS_MIN && all <= 12_000, "{all} of {servers}");
    }
}

/// The usual limit of a process is 1,024 open files.
#[test]
fn health_check_ports_leave_file_descriptors_to_others() {
    let of_each = |servers| connections_of_each(servers, 1_024);
    assert_eq!([1, 2, 16, 64, 100].map(of_each), [128, 128, 16, 4, 4]);
}
