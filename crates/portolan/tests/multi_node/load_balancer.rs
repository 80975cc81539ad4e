//! Services of type LoadBalancer on a node with `portolan up`: the AWS annotations of the Kubernetes
//! documentation, sticky sessions, status and metrics. The tests use `openssl s_client`, backends that return
//! the PROXY header, and access logs in a bucket.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use edge::settings::ServiceName;
use edge::sticky_cookie::StickyKey;
use http::Method;
use serde_json::{Value, json};
use testbed::Backend;

use super::buckets::BucketService;
use super::test_cluster::TestCluster;

/// Time for a change on a busy host.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(90);
const ADDRESSES: &str = "172.30.0.200-172.30.0.201";
const CLIENT: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 100);
/// Last part of the certificate ARN, and name of the Secret.
const CERTIFICATE: &str = "12345678-1234-1234-1234-123456789012";
const BUCKET: &str = "my-bucket";
const SERVER: &str = "node-1";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const COOKIE_SECRET: &str = "/api/v1/namespaces/kube-system/secrets/portolan-edge-cookies";

/// Starts a backend on a node.
fn start_backend(cluster: &TestCluster, name: &str) -> Backend {
    Backend::start(cluster.network().member(name).expect("a node")).expect("a backend")
}

/// Connection of `openssl s_client` from outside of the cluster.
struct Openssl {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Openssl {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

impl Openssl {
    /// Connects and verifies the certificate. Returns the name of the backend and the PROXY header that it received.
    fn connect(cluster: &TestCluster, authority: &PathBuf) -> Option<(Self, String, String)> {
        let mut command = Command::new("openssl");
        command
            .args(["s_client", "-quiet", "-connect", "172.30.0.200:443"])
            .args([
                "-servername",
                "www.example.com",
                "-verify_hostname",
                "www.example.com",
            ])
            .args(["-verify_return_error", "-CAfile"])
            .arg(authority)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let outside = cluster.network().outside().expect("the outside");
        let mut child = outside.spawn(&mut command).expect("openssl");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut this = Self {
            child,
            input: input.expect("a pipe"),
            output: BufReader::new(output.expect("a pipe")),
        };
        let line = this.line()?;
        let (name, header) = line.split_once(' ')?;
        let (name, header) = (name.to_owned(), header.to_owned());
        Some((this, name, header))
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(count) if count > 0 => Some(line.trim_end().to_owned()),
            _ => None,
        }
    }

    fn is_echoed(&mut self) -> bool {
        self.input.write_all(b"are you there?\n").is_ok() && self.line().as_deref() == Some("are you there?")
    }
}

/// Waits until `check` returns a value. `subject` names it in the failure.
fn wait_until<T>(subject: &str, check: impl FnMut() -> Option<T>) -> T {
    testbed::wait_until(subject, CHANGE_TIMEOUT, check)
}

/// Returns a Service with the annotations of the documentation.
fn service() -> Value {
    let aws = |name: &str| format!("service.beta.kubernetes.io/aws-load-balancer-{name}");
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "annotations": {
            "portolan.dev/load-balancer-ips": "172.30.0.200",
            aws("ssl-cert"): format!("arn:aws:acm:us-east-1:123456789012:certificate/{CERTIFICATE}"),
            aws("backend-protocol"): "tcp",
            aws("ssl-ports"): "https",
            aws("ssl-negotiation-policy"): "ELBSecurityPolicy-TLS13-1-2-2021-06",
            aws("proxy-protocol"): "*",
            aws("access-log-enabled"): "true",
            aws("access-log-emit-interval"): "5",
            aws("access-log-s3-bucket-name"): BUCKET,
            aws("access-log-s3-bucket-prefix"): "my-bucket-prefix/prod",
            aws("connection-draining-enabled"): "true",
            aws("connection-draining-timeout"): "10",
            aws("connection-idle-timeout"): "300",
            aws("healthcheck-protocol"): "HTTP",
            aws("healthcheck-port"): Backend::HEALTH_PORT.to_string(),
            aws("healthcheck-path"): "/healthz",
            aws("healthcheck-healthy-threshold"): "2",
            aws("healthcheck-unhealthy-threshold"): "2",
            aws("healthcheck-interval"): "5",
            aws("healthcheck-timeout"): "2",
        }},
        "spec": {"type": "LoadBalancer", "ports": [{"name": "https", "port": 443, "targetPort": Backend::ECHO_PORT}]},
    })
}

/// Returns a Service with sticky sessions by cookie.
fn sticky_service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "sticky", "annotations": {
            "portolan.dev/load-balancer-ips": "172.30.0.201",
            "portolan.dev/edge-protocol": "http",
            "portolan.dev/edge-sticky": "cookie",
        }},
        "spec": {"type": "LoadBalancer", "ports": [{"name": "http", "port": 80, "targetPort": Backend::HEALTH_PORT}]},
    })
}

fn slice(service: &str, port: &Value, backends: &[&Backend]) -> Value {
    let endpoint = |backend: &&Backend| json!({"addresses": [backend.address.to_string()]});
    let endpoints: Vec<Value> = backends.iter().map(endpoint).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
        "endpoints": endpoints, "ports": [port],
    })
}

fn web_slice(backends: &[&Backend]) -> Value {
    slice(
        "web",
        &json!({"name": "https", "protocol": "TCP", "port": Backend::ECHO_PORT}),
        backends,
    )
}

/// Creates a self-signed certificate in a Secret, and returns a file with it for the client.
fn create_certificate(cluster: &TestCluster) -> PathBuf {
    let pair = rcgen::generate_simple_self_signed(vec!["www.example.com".to_owned()]).expect("a certificate");
    let encoded = |pem: &str| STANDARD.encode(pem);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": CERTIFICATE}, "type": "kubernetes.io/tls",
        "data": {"tls.crt": encoded(&pair.cert.pem()), "tls.key": encoded(&pair.signing_key.serialize_pem())},
    });
    cluster.request(
        SERVER,
        Method::POST,
        "/api/v1/namespaces/default/secrets",
        Some(&secret),
    );
    let path = cluster.data_dir(SERVER).join("client-trusts.pem");
    fs::write(&path, pair.cert.pem()).expect("a file");
    path
}

/// Runs `portolan balancer status`. Returns its JSON, and true if the exit code is 0.
fn status(cluster: &TestCluster) -> (Value, bool) {
    let kubeconfig = format!(
        "--kubeconfig={}",
        cluster.data_dir(SERVER).join("admin.conf").display()
    );
    let output = cluster.run(SERVER, &["balancer", "status", &kubeconfig, "-o", "json"]);
    let status = serde_json::from_slice(&output.stdout);
    (status.unwrap_or_default(), output.status.success())
}

/// Returns the backends of a Service at the edge, with their states.
fn states(cluster: &TestCluster, service: &str) -> Vec<(String, String)> {
    let (status, _) = status(cluster);
    let ports = status["edge"].as_array().cloned().unwrap_or_default();
    let port = ports.into_iter().find(|port| port["service"] == service);
    let backends = port.and_then(|port| port["backends"].as_array().cloned());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let backends = backends.unwrap_or_default().into_iter();
    backends
        .map(|backend| (text(&backend["address"]), text(&backend["state"])))
        .collect()
}

/// Sends a request from the namespace of a member and returns the response.
fn get(cluster: &TestCluster, from: &str, to: SocketAddr, path: &str, cookie: &str) -> Option<String> {
    let member = match from {
        "outside" => cluster.network().outside(),
        node => cluster.network().member(node),
    };
    let connected = member
        .expect("a node")
        .enter(|| TcpStream::connect_timeout(&to, Duration::from_secs(2)));
    let mut stream = connected.expect("a namespace").ok()?;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {to}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    Some(response)
}

#[test]
fn documented_annotations_take_effect() {
    testbed::in_namespace(|| {
        let has_openssl = Command::new("openssl").arg("version").output();
        if !has_openssl.is_ok_and(|output| output.status.success()) {
            testbed::skip_inside("openssl is not installed");
        }
        let mut cluster = TestCluster::new(2);
        let buckets = BucketService::start(&mut cluster);
        buckets.create(&cluster, BUCKET);
        let endpoint = format!("--edge-access-log-s3-endpoint={}", buckets.url());
        let pool = format!("--load-balancer-addresses={ADDRESSES}");
        let allowed = format!("--edge-access-log-buckets={BUCKET}");
        cluster.up(SERVER, &[&endpoint, &allowed, &pool]);
        let backends = ["node-2", "control-plane"].map(|name| start_backend(&cluster, name));
        let [one, other] = &backends;
        let authority = create_certificate(&cluster);
        cluster.request(SERVER, Method::POST, SLICES, Some(&web_slice(&[one, other])));
        cluster.request(SERVER, Method::POST, SERVICES, Some(&service()));

        // The edge terminates TLS, and the backend receives the client address in the PROXY header.
        let (connection, _, header) = wait_until("a connection", || Openssl::connect(&cluster, &authority));
        assert!(
            header.starts_with(&format!("PROXY TCP4 {CLIENT} 172.30.0.200 ")) && header.ends_with(" 443"),
            "{header}"
        );
        drop(connection);
        check_status_and_metrics(&cluster);

        // An unhealthy backend receives no connections until it is healthy again.
        let has_state = |backend: &Backend, state: &str| {
            let address = SocketAddr::new(backend.address, Backend::ECHO_PORT).to_string();
            states(&cluster, "web")
                .contains(&(address, state.to_owned()))
                .then_some(())
        };
        one.set_healthy(false);
        wait_until("an unhealthy backend", || has_state(one, "unhealthy"));
        for _ in 0..4 {
            let (_, name, _) = Openssl::connect(&cluster, &authority).expect("a connection");
            assert_eq!(name, other.name);
        }
        one.set_healthy(true);
        wait_until("a healthy backend", || has_state(one, "healthy"));

        // A removed backend drains its connection; new connections go to the other backend.
        let (mut first, _, _) = wait_until("a connection to the backend", || {
            Openssl::connect(&cluster, &authority).filter(|(_, name, _)| *name == one.name)
        });
        assert!(first.is_echoed());
        let path = format!("{SLICES}/web");
        cluster.request(SERVER, Method::PATCH, &path, Some(&web_slice(&[other])));
        wait_until("one backend", || {
            (states(&cluster, "web").len() == 1).then_some(())
        });
        assert!(first.is_echoed(), "the connection is drained");
        let (mut second, name, _) = Openssl::connect(&cluster, &authority).expect("a connection");
        assert_eq!(name, other.name);
        wait_until("the end of draining", || (!first.is_echoed()).then_some(()));
        assert!(second.is_echoed());

        // The edge writes the log at shutdown.
        drop((first, second));
        cluster.stop(SERVER);
        let objects = buckets.objects(&cluster, BUCKET);
        let is_of_service = |name: &str| {
            name.starts_with("default/my-bucket-prefix/prod/")
                && name.contains("/default_web_")
                && name.ends_with(".log")
        };
        assert!(objects.iter().all(|(name, _)| is_of_service(name)), "{objects:?}");
        let text: String = objects.into_iter().map(|(_, text)| text).collect();
        let line = format!(
            "\"SSL 172.30.0.200:443 {}:{}\"",
            other.address,
            Backend::ECHO_PORT
        );
        assert!(
            text.lines()
                .any(|entry| entry.starts_with(&CLIENT.to_string()) && entry.contains(&line)),
            "{line} is not in\n{text}"
        );
    });
}

/// Checks the output of `portolan balancer status` and the metrics.
fn check_status_and_metrics(cluster: &TestCluster) {
    // The usage of a pool is updated after a second.
    let status = wait_until("a healthy status", || match status(cluster) {
        (status, true) if status["pools"][0]["usage"][0]["assigned"] == 1 => Some(status),
        (status, _) => {
            assert_ne!(status["node"], Value::Null, "{status:#}");
            None
        }
    });
    assert_eq!(
        (&status["node"], &status["isQuorate"]),
        (&json!(SERVER), &json!(true))
    );
    assert_eq!(status["assigner"], "this process");
    assert_eq!(
        status["services"],
        json!([{
            "service": "default/web", "pending": null, "remarks": null, "portErrors": [],
            "addresses": [{"ip": "172.30.0.200", "pool": "default", "node": SERVER, "acceptedBy": "edge"}],
        }])
    );
    assert_eq!(
        status["pools"],
        json!([{"name": "default", "usage": [{"family": "IPv4", "total": 2, "assigned": 1}]}])
    );
    let metrics = get(cluster, SERVER, ([127, 0, 0, 1], 10_268).into(), "/metrics", "").expect("metrics");
    let labels = "namespace=\"default\",service=\"web\",port=\"443\",protocol=\"tcp\"";
    for line in [
        "portolan_announcer_announced{ip=\"172.30.0.200\"} 1\n".to_owned(),
        format!("portolan_edge_connections_total{{{labels}}} "),
        "service_controller_loadbalancer_sync_total ".to_owned(),
        "service_controller_nodesync_error_total 0\n".to_owned(),
        "service_controller_nodesync_latency_seconds_count ".to_owned(),
        "service_controller_update_loadbalancer_host_latency_seconds_count ".to_owned(),
    ] {
        assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
    }
}

#[test]
fn sticky_cookies_depend_on_a_replaceable_secret() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(2);
        cluster.up(SERVER, &[&format!("--load-balancer-addresses={ADDRESSES}")]);
        let backend = start_backend(&cluster, "node-2");
        let port = json!({"name": "http", "protocol": "TCP", "port": Backend::HEALTH_PORT});
        cluster.request(
            SERVER,
            Method::POST,
            SLICES,
            Some(&slice("sticky", &port, &[&backend])),
        );
        cluster.request(SERVER, Method::POST, SERVICES, Some(&sticky_service()));
        let cookie_for = |secret: &[u8]| {
            let service = ServiceName {
                namespace: "default".into(),
                name: "sticky".into(),
            };
            let number =
                StickyKey::new(secret).id(&service, SocketAddr::new(backend.address, Backend::HEALTH_PORT));
            format!("portolan-backend={number:016x}")
        };
        let to = SocketAddr::from(([172, 30, 0, 201], 80));
        let new_cookie = |cookie: &str| {
            let response = get(&cluster, "outside", to, "/", cookie).expect("a response");
            assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
            let value = response.split("\r\nset-cookie: ").nth(1)?;
            value.split(';').next().map(str::to_owned)
        };
        wait_until("a response", || {
            get(&cluster, "outside", to, "/", "").filter(|response| response.starts_with("HTTP/1.1 200 "))
        });
        // The generated secret has 256 bits, and the cookies depend on it.
        let first = new_cookie("").expect("a cookie");
        let secret = cluster.get(SERVER, COOKIE_SECRET);
        let text = secret["data"]["key"].as_str().expect("a key in the Secret");
        let old = STANDARD.decode(text).expect("base64");
        assert_eq!(old.len(), 32);
        assert_eq!(first, cookie_for(&old));
        assert_eq!(new_cookie(&first), None, "the edge accepts the cookie");
        // The previous key still verifies cookies, and the response has a cookie of the new key.
        let new = STANDARD.encode("another secret");
        let patch = json!({"data": {"key": new, "previous-key": text}});
        cluster.request(SERVER, Method::PATCH, COOKIE_SECRET, Some(&patch));
        let second = wait_until("a new cookie", || new_cookie(&first));
        assert_eq!(second, cookie_for(b"another secret"));
        assert_eq!(new_cookie(&second), None, "the edge accepts the cookie");
    });
}
