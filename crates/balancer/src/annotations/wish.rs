//! What all annotations of a Service together ask of the edge: what they say of each port, with the clouds' rules and
//! defaults for what they do not say.

use std::sync::Arc;
use std::time::Duration;

use api::object::{Protocol, Service, ServicePort};
use edge::settings::{
    Alpn, BackendProtocol, HealthCheck, HealthProbe, Limits, LogFormat, Policy, ProxyVersion, Stickiness,
    TlsPolicy,
};
use ipnet::IpNet;

use super::Fault;
use super::asked::{Asked, Asks, Speaks, Sticks};
use super::value::{PortRef, PortSet, SecretName};

/// How long connections to a backend that left go on, where they are to be drained: AWS's default.
pub const DRAINING_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a client stays with its backend after its last connection, if nothing is said: API-30.
pub const STICKY_TIMEOUT: Duration = Duration::from_secs(10_800);
/// How long lines are gathered for a file of the access log: AWS's default.
pub const LOG_INTERVAL: Duration = Duration::from_secs(60 * 60);
/// The cookie of sticky sessions, if it has no other name.
pub const COOKIE_NAME: &str = "portolan-backend";
/// Checks of backends, where nothing else is said: AWS's defaults (LBC-04).
pub const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// See [`CHECK_INTERVAL`].
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// See [`CHECK_INTERVAL`].
pub const HEALTHY_THRESHOLD: u32 = 2;
/// See [`CHECK_INTERVAL`].
pub const UNHEALTHY_THRESHOLD: u32 = 6;
/// Statuses that are good, where nothing else is said.
pub const GOOD_STATUSES: (u16, u16) = (200, 399);

/// The error of a port whose protocol no edge serves, in `status.loadBalancer.ingress[].ports`.
pub const PROTOCOL_NOT_SUPPORTED: &str = "portolan.dev/ProtocolNotSupported";
/// The error of a port with TLS that no certificate is named for.
pub const NO_CERTIFICATE: &str = "portolan.dev/NoCertificate";

/// What a Service asks of the edge, but for what only a node knows: endpoints, certificates, addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeWish {
    /// The ports that can be served.
    pub listeners: Vec<ListenerWish>,
    /// The ports that cannot.
    pub refused: Vec<RefusedPort>,
    /// The certificates of listeners with TLS.
    pub certificates: Vec<SecretName>,
    /// Versions and suites of listeners with TLS.
    pub tls_policy: TlsPolicy,
    /// What they agree on by ALPN.
    pub alpn: Alpn,
    /// What holds for all ports.
    pub policy: Policy,
    /// The access log, if one is to be kept.
    pub access_log: Option<LogWish>,
}

/// A port that the edge is to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerWish {
    /// Its name, empty if it has none.
    pub name: Arc<str>,
    /// Its number.
    pub port: u16,
    /// TCP or UDP.
    pub protocol: Protocol,
    /// What clients speak.
    pub frontend: FrontendWish,
    /// What backends are spoken to.
    pub backend_protocol: BackendProtocol,
}

/// What clients of a port speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // as `edge::settings::Frontend`
pub enum FrontendWish {
    Tcp,
    Ssl,
    Http { redirects_to_https: Option<u16> },
    Https,
    Udp,
}

/// A port that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedPort {
    /// Its number.
    pub port: u16,
    /// Protocol of the port.
    pub protocol: Protocol,
    /// Why, as the status of a port tells it.
    pub error: &'static str,
}

/// An access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogWish {
    /// The bucket, if one is named.
    pub bucket: Option<Arc<str>>,
    /// Begins the names of its files.
    pub prefix: Arc<str>,
    /// How long lines are gathered for one file.
    pub interval: Duration,
    /// What a line looks like.
    pub format: LogFormat,
}

/// Puts together what was asked for. What is missing for it is a fault.
pub fn resolve(asked: &Asked, service: &Service) -> (EdgeWish, Vec<Fault>) {
    let mut faults = Vec::new();
    let certificates = asked.certificates.get().cloned().unwrap_or_default();
    let (listeners, refused) = listeners(asked, service, &mut faults);
    known_ports(asked, service, &mut faults);
    let policy = Policy {
        source_ranges: source_ranges(asked, service),
        proxy_protocol_from: asked.proxy_from.get().cloned().unwrap_or_default(),
        proxy_protocol_to_backends: proxy_protocol(asked),
        balance: asked.balance.get().copied().unwrap_or_default(),
        stickiness: stickiness(asked, service),
        health_check: health_check(asked, &mut faults),
        idle_timeout: asked.idle_timeout.get().copied().unwrap_or(Policy::IDLE_TIMEOUT),
        connect_timeout: asked
            .connect_timeout
            .get()
            .copied()
            .unwrap_or(Policy::CONNECT_TIMEOUT),
        draining: draining(asked),
        limits: Limits {
            connections_max: asked.connections_max.get().copied().unwrap_or(0),
            connections_per_client: asked.connections_per_client.get().copied().unwrap_or(0),
            connections_per_second: asked.connections_per_second.get().copied().unwrap_or(0),
            received_bytes_per_second: asked.received_bytes_per_second.get().copied().unwrap_or(0),
            sent_bytes_per_second: asked.sent_bytes_per_second.get().copied().unwrap_or(0),
            both_bytes_per_second: asked.both_bytes_per_second.get().copied().unwrap_or(0),
        },
        is_cross_zone: is_cross_zone(asked, service),
    };
    let wish = EdgeWish {
        listeners,
        refused,
        certificates,
        tls_policy: asked.tls_policy.get().copied().unwrap_or_default(),
        alpn: asked.alpn.get().copied().unwrap_or_default(),
        policy,
        access_log: access_log(asked),
    };
    (wish, faults)
}

fn listeners(
    asked: &Asked,
    service: &Service,
    faults: &mut Vec<Fault>,
) -> (Vec<ListenerWish>, Vec<RefusedPort>) {
    let mut listeners = Vec::new();
    let mut refused = Vec::new();
    for port in &service.spec.ports {
        let mut refuse = |error| {
            refused.push(RefusedPort {
                port: port.port,
                protocol: port.protocol,
                error,
            });
        };
        let (frontend, backend_protocol) = match port.protocol {
            Protocol::Udp => (FrontendWish::Udp, BackendProtocol::Tcp),
            Protocol::Tcp => speaks(asked, port),
            Protocol::Sctp => {
                faults.push(Fault::Incomplete(format!(
                    "port {}/SCTP is not served: the edge serves TCP and UDP",
                    port.port
                )));
                refuse(PROTOCOL_NOT_SUPPORTED);
                continue;
            }
        };
        let has_tls = matches!(frontend, FrontendWish::Ssl | FrontendWish::Https);
        if has_tls && asked.certificates.get().is_none_or(Vec::is_empty) {
            faults.push(Fault::Incomplete(format!(
                "port {} is not served: TLS ends there by annotation {}, and no annotation names a certificate, such as \
                 portolan.dev/edge-certificates",
                port.port,
                asked.speaks.by().or(asked.ports_speak.first().map(|(by, ..)| *by)).unwrap_or_default(),
            )));
            refuse(NO_CERTIFICATE);
            continue;
        }
        listeners.push(ListenerWish {
            name: port.name.as_str().into(),
            port: port.port,
            protocol: port.protocol,
            frontend,
            backend_protocol,
        });
    }
    if asked.redirects_to_https.get() == Some(&true) {
        redirect(&mut listeners);
    }
    (listeners, refused)
}

/// Lets listeners of HTTP send their clients to the first one of HTTPS, if there is one.
fn redirect(listeners: &mut [ListenerWish]) {
    let https = listeners
        .iter()
        .find(|listener| listener.frontend == FrontendWish::Https);
    let Some(https) = https.map(|listener| listener.port) else {
        return;
    };
    for listener in listeners {
        if let FrontendWish::Http { redirects_to_https } = &mut listener.frontend {
            *redirects_to_https = Some(https);
        }
    }
}

/// What a port's clients and backends speak.
fn speaks(asked: &Asked, port: &ServicePort) -> (FrontendWish, BackendProtocol) {
    const HTTP: FrontendWish = FrontendWish::Http {
        redirects_to_https: None,
    };
    let of_port = asked.ports_speak.iter().find(|(_, of, _)| of.is(port));
    let of_port = of_port.map(|(.., speaks)| *speaks);
    let backends = asked.backends_speak.get().copied();
    let told = |otherwise| match backends.unwrap_or(otherwise) {
        Speaks::Tcp => BackendProtocol::Tcp,
        Speaks::Ssl => BackendProtocol::Ssl,
        Speaks::Http => BackendProtocol::Http,
        Speaks::Https => BackendProtocol::Https,
    };
    // Where it is said what clients speak, backends speak the same without TLS, unless that is said as well.
    if let Some(speaks) = of_port.or(asked.speaks.get().copied()) {
        let passes_through = asked.tls_passes_through.get() == Some(&true);
        return match speaks {
            Speaks::Ssl | Speaks::Https if passes_through => (FrontendWish::Tcp, BackendProtocol::Tcp),
            Speaks::Tcp => (FrontendWish::Tcp, BackendProtocol::Tcp),
            Speaks::Ssl => (FrontendWish::Ssl, bytes(told(Speaks::Tcp))),
            Speaks::Http => (HTTP, requests(told(Speaks::Http))),
            Speaks::Https => (FrontendWish::Https, requests(told(Speaks::Http))),
        };
    }
    // Otherwise what backends speak says it, together with the certificate: the rules of AWS's provider.
    let has_certificate = asked.certificates.get().is_some_and(|list| !list.is_empty());
    let has_tls = has_certificate && asked.tls_ports.get().unwrap_or(&PortSet::All).has(port);
    match (has_tls, backends) {
        (true, Some(Speaks::Http)) => (FrontendWish::Https, BackendProtocol::Http),
        (true, Some(Speaks::Https)) => (FrontendWish::Https, BackendProtocol::Https),
        (true, Some(Speaks::Ssl)) => (FrontendWish::Ssl, BackendProtocol::Ssl),
        (true, Some(Speaks::Tcp) | None) => (FrontendWish::Ssl, BackendProtocol::Tcp),
        (false, Some(Speaks::Http)) => (HTTP, BackendProtocol::Http),
        (false, _) => (FrontendWish::Tcp, BackendProtocol::Tcp),
    }
}

/// What backends of a listener of bytes are spoken to.
fn bytes(protocol: BackendProtocol) -> BackendProtocol {
    match protocol {
        BackendProtocol::Https | BackendProtocol::Ssl => BackendProtocol::Ssl,
        BackendProtocol::Http | BackendProtocol::Tcp => BackendProtocol::Tcp,
    }
}

/// What backends of a listener of requests are spoken to.
fn requests(protocol: BackendProtocol) -> BackendProtocol {
    match protocol {
        BackendProtocol::Https | BackendProtocol::Ssl => BackendProtocol::Https,
        BackendProtocol::Http | BackendProtocol::Tcp => BackendProtocol::Http,
    }
}

/// Ports that are named and that the Service does not have.
fn known_ports(asked: &Asked, service: &Service, faults: &mut Vec<Fault>) {
    let of_tls = match (asked.tls_ports.by(), asked.tls_ports.get()) {
        (Some(by), Some(PortSet::Of(ports))) => ports.iter().map(|port| (by, port)).collect(),
        _ => Vec::new(),
    };
    let of_protocols = asked.ports_speak.iter().map(|(by, port, _)| (*by, port));
    for (by, named) in of_tls.into_iter().chain(of_protocols) {
        if !service.spec.ports.iter().any(|port| named.is(port)) {
            let value = match named {
                PortRef::Number(number) => number.to_string(),
                PortRef::Name(name) => name.clone(),
            };
            faults.push(Fault::Value {
                annotation: by.to_owned(),
                value,
                allowed: "names or numbers of the Service's ports".to_owned(),
            });
        }
    }
}

/// The field counts; the annotations only where it is empty (upstream's `GetLoadBalancerSourceRanges`).
fn source_ranges(asked: &Asked, service: &Service) -> Vec<IpNet> {
    let of_field = &service.spec.load_balancer_source_ranges;
    if of_field.is_empty() {
        return asked.source_ranges.clone();
    }
    // The API has validated them.
    of_field
        .iter()
        .filter_map(|text| super::value::range(text.trim()))
        .collect()
}

fn proxy_protocol(asked: &Asked) -> Option<ProxyVersion> {
    let version = (*asked.proxy_to_backends.get()?)?;
    Some(asked.proxy_version.get().copied().unwrap_or(version))
}

fn stickiness(asked: &Asked, service: &Service) -> Stickiness {
    let by_source = |timeout: Option<Duration>| Stickiness::Source {
        timeout: timeout.unwrap_or(STICKY_TIMEOUT),
    };
    let timeout = asked.sticky_timeout.get().copied();
    match asked.sticks.get() {
        Some(Sticks::BySource) => by_source(timeout),
        Some(Sticks::ByCookie) => Stickiness::Cookie {
            name: asked
                .cookie_name
                .get()
                .cloned()
                .unwrap_or_else(|| COOKIE_NAME.into()),
            max_age: asked.cookie_max_age.get().copied(),
        },
        Some(Sticks::Never) => Stickiness::None,
        None => {
            let of_field = service.spec.affinity_timeout_seconds();
            of_field.map_or(Stickiness::None, |seconds| {
                by_source(Some(Duration::from_secs(seconds.into())))
            })
        }
    }
}

fn health_check(asked: &Asked, faults: &mut Vec<Fault>) -> Option<HealthCheck> {
    let is_asked_for = asked.is_checked.get().copied().unwrap_or_else(|| {
        let slots = [
            asked.check.by(),
            asked.check_port.by(),
            asked.check_path.by(),
            asked.check_host.by(),
            asked.check_interval.by(),
            asked.check_timeout.by(),
            asked.check_healthy.by(),
            asked.check_unhealthy.by(),
            asked.check_statuses.by(),
        ];
        slots.iter().any(Option::is_some)
    });
    if !is_asked_for {
        return None;
    }
    // A path means nothing to a check by connection.
    let by_path = || {
        if asked.check_path.get().is_some() {
            Asks::Http
        } else {
            Asks::Tcp
        }
    };
    let get = |is_https| HealthProbe::Http {
        is_https,
        path: asked.check_path.get().cloned().unwrap_or_else(|| "/".into()),
        host: asked.check_host.get().cloned(),
        expected_statuses: asked
            .check_statuses
            .get()
            .cloned()
            .unwrap_or_else(|| vec![GOOD_STATUSES]),
    };
    let probe = match asked.check.get().copied().unwrap_or_else(by_path) {
        Asks::Tcp => HealthProbe::Tcp,
        Asks::Ssl => HealthProbe::Ssl,
        Asks::Http => get(false),
        Asks::Https => get(true),
    };
    let interval = asked.check_interval.get().copied().unwrap_or(CHECK_INTERVAL);
    let timeout = asked
        .check_timeout
        .get()
        .copied()
        .unwrap_or(CHECK_TIMEOUT.min(interval));
    if timeout > interval {
        faults.push(Fault::Incomplete(format!(
            "annotation {} lets a health check take {timeout:?}, longer than the {interval:?} between two of them: it may \
             take as long as that",
            asked.check_timeout.by().unwrap_or_default()
        )));
    }
    Some(HealthCheck {
        probe,
        port: asked.check_port.get().copied().flatten(),
        interval,
        timeout: timeout.min(interval),
        healthy_threshold: asked.check_healthy.get().copied().unwrap_or(HEALTHY_THRESHOLD),
        unhealthy_threshold: asked
            .check_unhealthy
            .get()
            .copied()
            .unwrap_or(UNHEALTHY_THRESHOLD),
    })
}

/// How long connections to backends that left go on. Without draining, as it was said explicitly, they end at once.
fn draining(asked: &Asked) -> Option<Duration> {
    asked.drains.get().map(|drains| match drains {
        true => asked.draining_timeout.get().copied().unwrap_or(DRAINING_TIMEOUT),
        false => Duration::ZERO,
    })
}

fn is_cross_zone(asked: &Asked, service: &Service) -> bool {
    let prefers_near = matches!(
        service.spec.traffic_distribution.as_deref(),
        Some("PreferClose" | "PreferSameZone" | "PreferSameNode")
    );
    asked.is_cross_zone.get().copied().unwrap_or(!prefers_near)
}

fn access_log(asked: &Asked) -> Option<LogWish> {
    (asked.is_logged.get() == Some(&true)).then(|| LogWish {
        bucket: asked.log_bucket.get().cloned(),
        prefix: asked.log_prefix.get().cloned().unwrap_or_default(),
        interval: asked.log_interval.get().copied().unwrap_or(LOG_INTERVAL),
        format: asked.log_format.get().copied().unwrap_or_default(),
    })
}
