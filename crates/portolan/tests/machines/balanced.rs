//! Services of type LoadBalancer on a machine of `portolan up`, as somebody outside and somebody at its console see them:
//! the annotations that the documentation of Kubernetes shows for AWS, with `openssl s_client`, backends that print the PROXY
//! header, and the access log in a bucket; the cookies of sticky sessions; status and metrics.

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

use super::buckets::Buckets;
use super::lab::Lab;

/// How long something may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
const ADDRESSES: &str = "172.30.0.200-172.30.0.201";
const CLIENT: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 100);
/// The last part of the certificate's ARN, and the Secret's name.
const CERTIFICATE: &str = "12345678-1234-1234-1234-123456789012";
const BUCKET: &str = "my-bucket";
const SERVER: &str = "node-1";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const COOKIE_SECRET: &str = "/api/v1/namespaces/kube-system/secrets/portolan-edge-cookies";

/// A backend on a machine.
fn start_backend(lab: &Lab, name: &str) -> Backend {
    Backend::start(lab.cluster().member(name).expect("a machine")).expect("its ports")
}

/// `openssl s_client` on the outside, connected.
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
    /// Connects and verifies the certificate; the backend's name and the PROXY header that it got.
    fn connect(lab: &Lab, authority: &PathBuf) -> Option<(Self, String, String)> {
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
        let outside = lab.cluster().outside().expect("the outside");
        let mut child = outside.spawn(&mut command).expect("openssl");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut this = Self {
            child,
            input: input.expect("a pipe"),
            output: BufReader::new(output.expect("a pipe")),
        };
        let line = this.line()?;
        let (name, header) = line.split_once(' ')?;
        let told = (name.to_owned(), header.to_owned());
        Some((this, told.0, told.1))
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

/// Waits until something is so.
fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    testbed::until(what, PATIENCE, look)
}

/// The Service of the documentation's examples.
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

/// A Service whose clients stay with their backend by a cookie.
fn sticky() -> Value {
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

/// A self-signed certificate in its Secret, and in a file for the client.
fn make_certificate(lab: &Lab) -> PathBuf {
    let pair = rcgen::generate_simple_self_signed(vec!["www.example.com".to_owned()]).expect("a certificate");
    let encoded = |pem: &str| STANDARD.encode(pem);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": CERTIFICATE}, "type": "kubernetes.io/tls",
        "data": {"tls.crt": encoded(&pair.cert.pem()), "tls.key": encoded(&pair.signing_key.serialize_pem())},
    });
    lab.ask(
        SERVER,
        Method::POST,
        "/api/v1/namespaces/default/secrets",
        Some(&secret),
    );
    let path = lab.data_dir(SERVER).join("client-trusts.pem");
    fs::write(&path, pair.cert.pem()).expect("a file");
    path
}

/// What `portolan balancer status` says, and whether all is well.
fn status(lab: &Lab) -> (Value, bool) {
    let kubeconfig = format!(
        "--kubeconfig={}",
        lab.data_dir(SERVER).join("admin.conf").display()
    );
    let output = lab.run(SERVER, &["balancer", "status", &kubeconfig, "-o", "json"]);
    let told = serde_json::from_slice(&output.stdout);
    (told.unwrap_or_default(), output.status.success())
}

/// The backends of a Service's port at the edge, with their states.
fn states(lab: &Lab, service: &str) -> Vec<(String, String)> {
    let (told, _) = status(lab);
    let ports = told["edge"].as_array().cloned().unwrap_or_default();
    let port = ports.into_iter().find(|port| port["service"] == service);
    let backends = port.and_then(|port| port["backends"].as_array().cloned());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let backends = backends.unwrap_or_default().into_iter();
    backends
        .map(|backend| (text(&backend["address"]), text(&backend["state"])))
        .collect()
}

/// Sends a request to an address from a member's namespace; the whole answer.
fn get(lab: &Lab, from: &str, to: SocketAddr, path: &str, cookie: &str) -> Option<String> {
    let member = match from {
        "outside" => lab.cluster().outside(),
        machine => lab.cluster().member(machine),
    };
    let connected = member
        .expect("a machine")
        .enter(|| TcpStream::connect_timeout(&to, Duration::from_secs(2)));
    let mut stream = connected.expect("a namespace").ok()?;
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {to}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn the_documentations_annotations_do_what_they_say() {
    testbed::in_namespace(|| {
        let has_openssl = Command::new("openssl").arg("version").output();
        if !has_openssl.is_ok_and(|output| output.status.success()) {
            testbed::skip_inside("openssl is not installed");
        }
        let mut lab = Lab::new(2);
        let buckets = Buckets::start(&mut lab);
        buckets.make(&lab, BUCKET);
        let endpoint = format!("--edge-access-log-s3-endpoint={}", buckets.url());
        let pool = format!("--load-balancer-addresses={ADDRESSES}");
        let allowed = format!("--edge-access-log-buckets={BUCKET}");
        lab.up(SERVER, &[&endpoint, &allowed, &pool]);
        let backends = ["node-2", "control-plane"].map(|name| start_backend(&lab, name));
        let [one, other] = &backends;
        let authority = make_certificate(&lab);
        lab.ask(SERVER, Method::POST, SLICES, Some(&web_slice(&[one, other])));
        lab.ask(SERVER, Method::POST, SERVICES, Some(&service()));

        // TLS ends at the edge, and the backend prints whose connection it is.
        let (connection, _, header) = until("a connection", || Openssl::connect(&lab, &authority));
        assert!(
            header.starts_with(&format!("PROXY TCP4 {CLIENT} 172.30.0.200 ")) && header.ends_with(" 443"),
            "{header}"
        );
        drop(connection);
        console(&lab);

        // A backend that says that it is not well gets no connections, until it is well again.
        let of = |backend: &Backend, state: &str| {
            let address = SocketAddr::new(backend.address, Backend::ECHO_PORT).to_string();
            states(&lab, "web")
                .contains(&(address, state.to_owned()))
                .then_some(())
        };
        one.set_well(false);
        until("a backend that is not well", || of(one, "unhealthy"));
        for _ in 0..4 {
            let (_, name, _) = Openssl::connect(&lab, &authority).expect("a connection");
            assert_eq!(name, other.name);
        }
        one.set_well(true);
        until("a backend that is well again", || of(one, "healthy"));

        // A backend that is removed keeps its connection for a while; new ones go elsewhere.
        let (mut first, _, _) = until("a connection to it", || {
            Openssl::connect(&lab, &authority).filter(|(_, name, _)| *name == one.name)
        });
        assert!(first.is_echoed());
        let path = format!("{SLICES}/web");
        lab.ask(SERVER, Method::PATCH, &path, Some(&web_slice(&[other])));
        until("one backend", || (states(&lab, "web").len() == 1).then_some(()));
        assert!(first.is_echoed(), "it is drained, not cut off");
        let (mut second, name, _) = Openssl::connect(&lab, &authority).expect("a connection");
        assert_eq!(name, other.name);
        until("the end of draining", || (!first.is_echoed()).then_some(()));
        assert!(second.is_echoed());

        // Its end lets the log be written.
        drop((first, second));
        lab.end(SERVER);
        let objects = buckets.objects(&lab, BUCKET);
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
                .any(|told| told.starts_with(&CLIENT.to_string()) && told.contains(&line)),
            "{line} is not in\n{text}"
        );
    });
}

/// What somebody at the machine sees of it: status and metrics.
fn console(lab: &Lab) {
    // How much of a pool is in use is written a second later.
    let told = until("that all is well", || match status(lab) {
        (told, true) if told["pools"][0]["usage"][0]["assigned"] == 1 => Some(told),
        (told, _) => {
            assert_ne!(told["node"], Value::Null, "{told:#}");
            None
        }
    });
    assert_eq!(
        (&told["node"], &told["isQuorate"]),
        (&json!(SERVER), &json!(true))
    );
    assert_eq!(told["assigner"], "this process");
    assert_eq!(
        told["services"],
        json!([{
            "service": "default/web", "pending": null, "remarks": null, "portErrors": [],
            "addresses": [{"ip": "172.30.0.200", "pool": "default", "node": SERVER, "takenBy": "edge"}],
        }])
    );
    assert_eq!(
        told["pools"],
        json!([{"name": "default", "usage": [{"family": "IPv4", "total": 2, "assigned": 1}]}])
    );
    let metrics = get(lab, SERVER, ([127, 0, 0, 1], 10_268).into(), "/metrics", "").expect("metrics");
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
fn cookies_of_sticky_sessions_are_made_of_a_secret_that_can_be_replaced() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(2);
        lab.up(SERVER, &[&format!("--load-balancer-addresses={ADDRESSES}")]);
        let backend = start_backend(&lab, "node-2");
        let port = json!({"name": "http", "protocol": "TCP", "port": Backend::HEALTH_PORT});
        lab.ask(
            SERVER,
            Method::POST,
            SLICES,
            Some(&slice("sticky", &port, &[&backend])),
        );
        lab.ask(SERVER, Method::POST, SERVICES, Some(&sticky()));
        let cookie_by = |secret: &[u8]| {
            let service = ServiceName {
                namespace: "default".into(),
                name: "sticky".into(),
            };
            let number =
                StickyKey::new(secret).id(&service, SocketAddr::new(backend.address, Backend::HEALTH_PORT));
            format!("portolan-backend={number:016x}")
        };
        let to = SocketAddr::from(([172, 30, 0, 201], 80));
        let given = |cookie: &str| {
            let answer = get(&lab, "outside", to, "/", cookie).expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            let value = answer.split("\r\nset-cookie: ").nth(1)?;
            value.split(';').next().map(str::to_owned)
        };
        until("an answer", || {
            get(&lab, "outside", to, "/", "").filter(|answer| answer.starts_with("HTTP/1.1 200 "))
        });
        // It was made for the cluster, is nobody's guess, and cookies are made of it.
        let first = given("").expect("a cookie");
        let secret = lab.get(SERVER, COOKIE_SECRET);
        let text = secret["data"]["key"].as_str().expect("a secret");
        let old = STANDARD.decode(text).expect("base64");
        assert_eq!(old.len(), 32);
        assert_eq!(first, cookie_by(&old));
        assert_eq!(given(&first), None, "it is known");
        // Replaced, it is still known, and the client is told the new one in its place.
        let new = STANDARD.encode("another secret");
        let patch = json!({"data": {"key": new, "previous-key": text}});
        lab.ask(SERVER, Method::PATCH, COOKIE_SECRET, Some(&patch));
        let second = until("a new cookie", || given(&first));
        assert_eq!(second, cookie_by(b"another secret"));
        assert_eq!(given(&second), None, "it is known");
    });
}
