//! Requests that routes by host and path lead to the backends of other Services.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use edge::routes::{HostRoutes, PathMatching, Route, RouteTable};
use edge::settings::{
    Backend, BackendProtocol, Certificate, Frontend, Listener, ServiceName, ServiceSettings, Settings, Tls,
};
use edge::{Edge, Options, PortKey, Transport};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::backend::Backend as TestBackend;
use crate::client::{assert_status, exchange};
use crate::served::{free_port, name};
use crate::tls::Identity;

const ONE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none";
const TWO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo";

fn target(service: &str) -> PortKey {
    PortKey {
        service: ServiceName {
            namespace: "shop".into(),
            name: service.into(),
        },
        port: 80,
        transport: Transport::Tcp,
    }
}

/// Returns settings of a Service without addresses, to which routes lead.
fn target_settings(backends: &[SocketAddr]) -> Arc<ServiceSettings> {
    let listener = Listener {
        name: "web".into(),
        port: 80,
        frontend: Frontend::Http {
            redirects_to_https: None,
        },
        backend_protocol: BackendProtocol::Http,
        backends: backends.iter().copied().map(Backend::ready).collect(),
    };
    Arc::new(ServiceSettings::new(Vec::new(), vec![listener]))
}

fn listener(port: u16, frontend: Frontend) -> Listener {
    Listener {
        name: "web".into(),
        port,
        frontend,
        backend_protocol: BackendProtocol::Http,
        backends: Vec::new(),
    }
}

fn prefix(path: &str, service: &str) -> Route {
    Route {
        path: path.into(),
        matching: PathMatching::Prefix,
        target: Some(target(service)),
    }
}

fn routes(hosts: Vec<(&str, HostRoutes)>) -> Option<Arc<RouteTable>> {
    let mut table = RouteTable::default();
    for (host, routes) in hosts {
        table.insert(host, routes);
    }
    Some(Arc::new(table))
}

fn host(routes: Vec<Route>) -> HostRoutes {
    HostRoutes {
        routes,
        ..HostRoutes::default()
    }
}

/// Settings of the Service with routes and of its targets.
fn settings(front: ServiceSettings, targets: &[(&str, &[SocketAddr])]) -> Settings {
    let mut settings = Settings::from([(name(), Arc::new(front))]);
    for (service, backends) in targets {
        settings.insert(target(service).service, target_settings(backends));
    }
    settings
}

fn start(settings: &Settings) -> Edge {
    let edge = Edge::start(Options {
        threads: 2,
        ..Options::default()
    })
    .unwrap();
    edge.apply(settings);
    assert!(edge.faults().borrow().is_empty(), "{:?}", edge.faults().borrow());
    edge
}

fn get(port: u16, host: &str, path: &str) -> String {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    exchange(
        address,
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
    )
}

#[test]
fn routes_by_host_and_path() {
    let (one, two) = (TestBackend::answering(ONE), TestBackend::answering(TWO));
    let port = free_port();
    let http = Frontend::Http {
        redirects_to_https: None,
    };
    let front = ServiceSettings {
        routes: routes(vec![
            ("a.example", host(vec![prefix("/", "one"), prefix("/two", "two")])),
            (
                "*.example",
                host(vec![prefix("/", "two"), prefix("/gone", "gone")]),
            ),
        ]),
        ..ServiceSettings::new(vec![[127, 0, 0, 1].into()], vec![listener(port, http)])
    };
    let targets: [(&str, &[SocketAddr]); 2] = [("one", &[one.address]), ("two", &[two.address])];
    let edge = start(&settings(front.clone(), &targets));
    for (host, path, expected) in [
        ("a.example", "/", "one"),
        ("A.Example:80", "/x?y", "one"),
        ("a.example", "/two/x", "two"),
        ("b.example", "/", "two"),
    ] {
        let response = get(port, host, path);
        assert_status(&response, 200);
        assert!(response.ends_with(expected), "{host}{path}: {response}");
    }
    assert_status(&get(port, "b.c.example", "/"), 404);
    assert_status(&get(port, "b.example", "/gone"), 503);
    // Other backends of a target leave the Service with the routes as it is.
    let moved: [(&str, &[SocketAddr]); 2] = [("one", &[two.address]), ("two", &[])];
    edge.apply(&settings(front, &moved));
    assert!(get(port, "a.example", "/").ends_with("two"));
    assert_status(&get(port, "b.example", "/"), 503);
}

fn certificate(identity: &Identity, source: &str) -> Arc<Certificate> {
    Arc::new(Certificate::new(
        source.into(),
        identity.cert.pem().into_bytes(),
        identity.signing_key.serialize_pem().into_bytes(),
    ))
}

fn identity(name: &str) -> Identity {
    rcgen::generate_simple_self_signed([name.to_owned()]).unwrap()
}

/// Sends a request over TLS to a server that must have the certificate `trusted`.
fn get_with_tls(port: u16, trusted: &Identity, host: &'static str) -> std::io::Result<String> {
    get_on_connection_for(host, port, trusted, host)
}

/// Sends a request for `host` over TLS with another server name.
fn get_on_connection_for(
    server_name: &'static str,
    port: u16,
    trusted: &Identity,
    host: &str,
) -> std::io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let client = ClientConnection::new(Arc::new(config), ServerName::try_from(server_name).unwrap()).unwrap();
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    let mut stream = StreamOwned::new(client, stream);
    write!(
        stream,
        "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}

#[test]
fn terminates_tls_by_host_and_redirects_to_it() {
    let (one, two) = (TestBackend::answering(ONE), TestBackend::answering(TWO));
    let (http_port, https_port) = (free_port(), free_port());
    let (a, b) = (identity("a.example"), identity("b.example"));
    let secured = |service: &str| HostRoutes {
        owner: service.into(),
        redirects_to_https: Some(https_port),
        ..host(vec![prefix("/", service)])
    };
    let tls = Tls {
        hosts: Some(
            [("a.example", "shop/a"), ("b.example", "shop/b")]
                .into_iter()
                .map(|(host, source)| (host.into(), Some(source.into())))
                .collect(),
        ),
        ..Tls::new(vec![certificate(&a, "shop/a"), certificate(&b, "shop/b")])
    };
    let http = Frontend::Http {
        redirects_to_https: None,
    };
    let front = ServiceSettings {
        routes: routes(vec![
            ("a.example", secured("one")),
            ("b.example", secured("two")),
            ("plain.example", host(vec![prefix("/", "two")])),
        ]),
        ..ServiceSettings::new(
            vec![[127, 0, 0, 1].into()],
            vec![
                listener(http_port, http),
                listener(https_port, Frontend::Https(tls)),
            ],
        )
    };
    let targets: [(&str, &[SocketAddr]); 2] = [("one", &[one.address]), ("two", &[two.address])];
    let _edge = start(&settings(front, &targets));
    let response = get(http_port, "a.example", "/x?y");
    assert_status(&response, 308);
    let location = format!("location: https://a.example:{https_port}/x?y\r\n");
    assert!(response.to_ascii_lowercase().contains(&location), "{response}");
    assert_status(&get(http_port, "plain.example", "/"), 200);
    assert!(
        get_with_tls(https_port, &a, "a.example")
            .unwrap()
            .ends_with("one")
    );
    assert!(
        get_with_tls(https_port, &b, "b.example")
            .unwrap()
            .ends_with("two")
    );
    let misdirected = get_on_connection_for("a.example", https_port, &a, "b.example").unwrap();
    assert_status(&misdirected, 421);
    assert!(
        get_with_tls(https_port, &a, "plain.example").is_err(),
        "a name without a certificate"
    );
    assert!(
        one.recorded()
            .iter()
            .any(|request| request.contains("x-forwarded-proto: https")),
        "{:?}",
        one.recorded()
    );
}
