use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn process(arguments: &[&str]) -> Process {
    Process {
        id: 7,
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        ..Process::default()
    }
}

#[test]
fn programs_are_recognized_by_their_arguments() {
    let of = |arguments: &[&str]| program(&process(arguments));
    assert_eq!(
        of(&["/usr/bin/portolan", "--log-level=warn", "proxy"]),
        Some(Program::Portolan)
    );
    assert_eq!(of(&["portolan", "up", "--data-dir=/a"]), Some(Program::Portolan));
    assert_eq!(of(&["portolan", "proxy", "status"]), None);
    assert_eq!(of(&["portolan", "proxy", "--cleanup"]), None);
    assert_eq!(of(&["portolan", "doctor", "node"]), None);
    assert_eq!(
        of(&["/usr/local/bin/kube-proxy", "--config=/a"]),
        Some(Program::KubeProxy)
    );
    assert_eq!(of(&["/usr/local/bin/k3s", "agent"]), Some(Program::KubeProxy));
    assert_eq!(of(&["k3s", "server", "--disable-kube-proxy"]), None);
    assert_eq!(of(&["k3s", "kubectl"]), None);
    assert_eq!(of(&["kube-router", "--run-service-proxy=false"]), None);
    assert_eq!(of(&["cat", "kube-proxy"]), None);
}

#[test]
fn addresses_of_servers_are_reachable_ones() {
    let at = |text: &str| Some(text.parse::<SocketAddr>().expect("an address"));
    let listen = |text: &str| listen_address(Some(text.to_owned()), 10_256);
    assert_eq!(listen_address(None, 10_249), at("127.0.0.1:10249"));
    assert_eq!(listen("0.0.0.0:1"), at("127.0.0.1:1"));
    assert_eq!(listen("[::]:10256"), at("127.0.0.1:10256"));
    assert_eq!(listen("192.0.2.1"), at("192.0.2.1:10256"));
    assert_eq!(listen(""), None);
    assert_eq!(listen("x"), at("127.0.0.1:10256"));
}

#[test]
fn health_does_not_depend_on_the_node() {
    let rejected = |status: &str| {
        Err(StatusError::Rejected {
            status: format!("HTTP/1.1 {status}"),
            body: String::new(),
        })
    };
    let result = |live: fn() -> Option<Result<String, StatusError>>, health: bool| {
        healthy(&move |path| match path {
            "/livez" => live(),
            _ => Some(if health {
                Ok(String::new())
            } else {
                rejected("503 Service Unavailable")
            }),
        })
    };
    assert_eq!(result(|| Some(Ok(String::new())), false), Some(true));
    assert_eq!(result(|| None, true), None);
    let not_found = || {
        Some(Err(StatusError::Rejected {
            status: "HTTP/1.1 404 Not Found".to_owned(),
            body: String::new(),
        }))
    };
    assert_eq!(result(not_found, true), Some(true));
    assert_eq!(result(not_found, false), Some(false));
    assert_eq!(result(|| Some(Err(StatusError::NotHttp)), true), None);
}

fn filled(pages: &[(&str, String)]) -> NodeProxy {
    let pages: BTreeMap<&str, String> = pages.iter().cloned().collect();
    let mut observed = NodeProxy::default();
    fill_from_metrics(&mut observed, &|path| pages.get(path).cloned());
    observed
}

#[test]
fn state_of_kube_proxy_is_read_from_metrics() {
    let now = Timestamp::now().as_second();
    let metrics = |synced: i64, changed: i64| {
        let text = format!("# HELP a b\n{LAST_SYNC_METRIC} {synced}\n{LAST_CHANGE_METRIC} {changed}.5\n");
        filled(&[("/metrics", text), ("/proxyMode", "iptables\n".to_owned())])
    };
    let current = metrics(now - 100, now - 200);
    assert_eq!(current.mode.as_deref(), Some("iptables"));
    assert_eq!(current.seconds_behind, Some(0));
    assert!(
        current
            .seconds_since_sync
            .is_some_and(|seconds| (100..110).contains(&seconds))
    );
    let behind = metrics(now - 200, now - 100);
    assert!(
        behind
            .seconds_behind
            .is_some_and(|seconds| (100..110).contains(&seconds))
    );
    let exponent = format!("{LAST_SYNC_METRIC} 1.7e+09");
    assert_eq!(metric(&exponent, LAST_SYNC_METRIC), Some(1_700_000_000));
    assert_eq!(metric("a_b 1", "a"), None);
}

#[test]
fn state_of_portolan_is_read_from_its_status() {
    let status = r#"{"lastSync": null, "secondsBehind": 70, "secondsWithoutAPI": 5}"#;
    let observed = filled(&[("/status", status.to_owned())]);
    assert_eq!(observed.seconds_behind, Some(70));
    assert_eq!(
        (observed.seconds_without_api, observed.seconds_since_sync),
        (Some(5), None)
    );
    assert_eq!(filled(&[("/status", "{".to_owned())]), NodeProxy::default());
}

#[test]
fn settings_come_from_configuration_or_flags() {
    let text = r#"{"kubeproxy.config.k8s.io": {"mode": "ipvs", "hostnameOverride": "Node-B", "clusterCIDR": "10.244.0.0/16,fd00::/48"}}"#;
    let configuration = parse_configz(text).expect("a configuration");
    let kube_proxy = process(&["kube-proxy"]);
    assert_eq!(mode(&kube_proxy, Some(&configuration)).as_deref(), Some("ipvs"));
    assert_eq!(node_name(&kube_proxy, Some(&configuration), "host"), "node-b");
    assert_eq!(
        cluster_cidrs(&kube_proxy, Some(&configuration)).map(|ranges| ranges.len()),
        Some(2)
    );
    let flags = process(&[
        "portolan",
        "proxy",
        "--hostname-override=a",
        "--cluster-cidr=10.0.0.0/8,x",
    ]);
    assert_eq!(mode(&flags, None).as_deref(), Some("nftables"));
    assert_eq!(node_name(&flags, Some(&configuration), "host"), "a");
    assert_eq!(cluster_cidrs(&flags, None).map(|ranges| ranges.len()), Some(1));
    assert_eq!(node_name(&kube_proxy, None, "Host"), "host");
    assert_eq!(
        (mode(&kube_proxy, None), cluster_cidrs(&kube_proxy, None)),
        (None, None)
    );
    let by_node = process(&[
        "kube-proxy",
        "--cluster-cidr=10.0.0.0/8",
        "--detect-local-mode=NodeCIDR",
    ]);
    assert_eq!(cluster_cidrs(&by_node, None), None);
    assert!(parse_configz("{}").is_none() && parse_configz("[").is_none());
}

#[test]
fn flags_of_a_proxy_that_does_not_respond_are_its_configuration() {
    let arguments = [
        "portolan",
        "proxy",
        "--kubeconfig=/a",
        "--node-name",
        "node-a",
        "--cluster-cidr=10.244.0.0/16",
        "--masquerade-all",
        "--detect-local-mode=NodeCIDR",
    ];
    let configuration = flag_configuration(&process(&arguments)).expect("a configuration");
    assert_eq!(configuration.hostname_override, "node-a");
    assert_eq!(configuration.cluster_cidr, "10.244.0.0/16");
    assert_eq!(configuration.detect_local_mode, "NodeCIDR");
    assert!(configuration.nftables.masquerade_all);
    for arguments in [
        &["portolan", "up"][..],
        &["portolan", "proxy", "--config=/a"],
        &["portolan", "proxy", "--cluster-cidr=x"],
        &["kube-proxy"],
    ] {
        assert!(flag_configuration(&process(arguments)).is_none(), "{arguments:?}");
    }
}

#[test]
fn processes_of_other_namespaces_are_not_proxies_of_the_node() {
    let other = Process {
        namespace: Some(2),
        ..process(&["kube-router"])
    };
    let unknown = process(&["kube-router"]);
    let found = read(&[other, unknown], 1, "host");
    let modes: Vec<_> = found.iter().map(|proxy| proxy.observed.mode.as_deref()).collect();
    assert_eq!(modes, [Some("ipvs")]);
}

/// Serves a page at an address of this process. Returns the address, and the number of connections.
fn metrics_server() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("an address");
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            let length = stream.read(&mut [0; 1_024]).expect("a request");
            assert!(length > 0);
            stream
                .write_all(b"HTTP/1.1 200 OK\r\n\r\niptables")
                .expect("a client that reads");
        }
    });
    (address, connections)
}

/// Any process can have the arguments of a proxy, and they can name the server of another process.
#[test]
fn forged_arguments_make_no_request() {
    let (address, connections) = metrics_server();
    let own = processes::own_namespace().expect("a namespace");
    let flags = ["metrics", "healthz"].map(|name| format!("--{name}-bind-address={address}"));
    let of = |id: u32, namespace: Option<u64>| Process {
        id,
        namespace,
        ..process(&["kube-proxy", &flags[0], &flags[1]])
    };
    for forged in [of(1, Some(own)), of(std::process::id(), None)] {
        let found = read(&[forged], own, "host");
        assert_eq!(
            (found[0].observed.healthy, &found[0].observed.mode),
            (None, &None)
        );
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0);
    let found = read(&[of(std::process::id(), Some(own))], own, "host");
    assert_eq!(found[0].observed.mode.as_deref(), Some("iptables"));
    assert_eq!(found[0].observed.healthy, Some(true));
}
