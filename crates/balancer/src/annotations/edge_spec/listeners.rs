//! Ports of a Service at the edge: protocols of clients and backends, TLS, redirects.

use api::object::{Protocol, Service, ServicePort};
use edge::settings::BackendProtocol;

use super::{FrontendSpec, ListenerSpec, NO_CERTIFICATE, PROTOCOL_NOT_SUPPORTED, RefusedPort};
use crate::annotations::AnnotationError;
use crate::annotations::value::{PortRef, PortSet};
use crate::annotations::values::{AnnotationValues, AppProtocol};

const HTTP: FrontendSpec = FrontendSpec::Http {
    redirects_to_https: None,
};

/// Returns the ports that can be served, and those that cannot.
pub(super) fn resolve(
    values: &AnnotationValues,
    service: &Service,
    errors: &mut Vec<AnnotationError>,
) -> (Vec<ListenerSpec>, Vec<RefusedPort>) {
    let mut listeners = Vec::new();
    let mut refused = Vec::new();
    for port in &service.spec.ports {
        match listener(values, port) {
            Ok(listener) => listeners.push(listener),
            Err((reason, error)) => {
                errors.push(error);
                refused.push(RefusedPort {
                    port: port.port,
                    protocol: port.protocol,
                    error: reason,
                });
            }
        }
    }
    if values.protocols.redirects_to_https.get_or(false) {
        redirect_to_https(&mut listeners);
    }
    check_port_names(values, service, errors);
    (listeners, refused)
}

/// Returns the listener of a port. The error has two parts: the reason for the status, and the error of the annotations.
fn listener(
    values: &AnnotationValues,
    port: &ServicePort,
) -> Result<ListenerSpec, (&'static str, AnnotationError)> {
    let (frontend, backend_protocol) = match port.protocol {
        Protocol::Udp => (FrontendSpec::Udp, BackendProtocol::Tcp),
        Protocol::Tcp => protocols(values, port),
        Protocol::Sctp => {
            let error = AnnotationError::Incomplete(format!(
                "port {}/SCTP is not served: the edge serves TCP and UDP",
                port.port
            ));
            return Err((PROTOCOL_NOT_SUPPORTED, error));
        }
    };
    if frontend.has_tls() && !has_certificate(values) {
        let protocols = &values.protocols;
        let first_port = protocols.ports.first().map(|(source, ..)| *source);
        let error = AnnotationError::Incomplete(format!(
            "port {} is not served: annotation {} selects TLS, and no annotation selects a certificate, such as \
             portolan.dev/edge-certificates",
            port.port,
            protocols.all_ports.source().or(first_port).unwrap_or_default(),
        ));
        return Err((NO_CERTIFICATE, error));
    }
    Ok(ListenerSpec {
        name: port.name.as_str().into(),
        port: port.port,
        protocol: port.protocol,
        frontend,
        backend_protocol,
    })
}

/// Redirects HTTP listeners to the first HTTPS listener, if there is one.
fn redirect_to_https(listeners: &mut [ListenerSpec]) {
    let https = listeners
        .iter()
        .find(|listener| listener.frontend == FrontendSpec::Https);
    let Some(https) = https.map(|listener| listener.port) else {
        return;
    };
    for listener in listeners {
        if let FrontendSpec::Http { redirects_to_https } = &mut listener.frontend {
            *redirects_to_https = Some(https);
        }
    }
}

fn has_certificate(values: &AnnotationValues) -> bool {
    values
        .tls
        .certificates
        .get()
        .is_some_and(|certificates| !certificates.is_empty())
}

/// Hint of a port about its protocol (API-28): `appProtocol` with a standard name, a name of Kubernetes, or one that
/// service meshes use. The edge ignores other names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProtocolHint {
    /// HTTP/1.1 without TLS; WebSocket is an upgrade of it.
    Http,
    /// HTTP/2 without TLS, with prior knowledge.
    Http2,
    /// HTTP over TLS.
    Https,
}

impl ProtocolHint {
    fn of(port: &ServicePort) -> Option<Self> {
        Some(match port.app_protocol.as_deref()? {
            "http" | "kubernetes.io/ws" => Self::Http,
            "kubernetes.io/h2c" | "h2c" | "http2" | "grpc" => Self::Http2,
            "https" | "kubernetes.io/wss" => Self::Https,
            _ => return None,
        })
    }
}

/// Returns the protocol of HTTP backends behind a port, which its hint selects.
pub(super) fn http_backend_protocol(port: &ServicePort) -> BackendProtocol {
    http(None, ProtocolHint::of(port))
}

/// Protocols of a TCP port: of clients and of backends. Annotations have precedence over the hint of the port.
fn protocols(values: &AnnotationValues, port: &ServicePort) -> (FrontendSpec, BackendProtocol) {
    let hint = ProtocolHint::of(port);
    let mut port_protocols = values.protocols.ports.iter();
    let port_protocol = port_protocols.find_map(|(_, of, protocol)| of.matches(port).then_some(*protocol));
    match port_protocol.or(values.protocols.all_ports.get().copied()) {
        Some(client_protocol) => protocols_by_client(values, client_protocol, hint),
        None => protocols_by_backend(values, port, hint),
    }
}

/// Protocols of a port for which annotations select the protocol of clients. Backends use the same protocol
/// without TLS, unless an annotation or the hint selects theirs.
fn protocols_by_client(
    values: &AnnotationValues,
    client_protocol: AppProtocol,
    hint: Option<ProtocolHint>,
) -> (FrontendSpec, BackendProtocol) {
    let passes_through = values.tls.passes_through.get_or(false);
    let backends = values.protocols.backends.get().copied();
    match client_protocol {
        AppProtocol::Ssl | AppProtocol::Https if passes_through => (FrontendSpec::Tcp, BackendProtocol::Tcp),
        AppProtocol::Tcp => (FrontendSpec::Tcp, BackendProtocol::Tcp),
        AppProtocol::Ssl => (
            FrontendSpec::Ssl,
            byte_stream(backends.unwrap_or(AppProtocol::Tcp)),
        ),
        AppProtocol::Http => (HTTP, http(backends, hint)),
        AppProtocol::Https => (FrontendSpec::Https, http(backends, hint)),
    }
}

/// Protocols of a port for which the protocol of backends and the certificate decide: the rules of AWS's provider. The
/// hint of the port selects HTTP as an annotation does.
fn protocols_by_backend(
    values: &AnnotationValues,
    port: &ServicePort,
    hint: Option<ProtocolHint>,
) -> (FrontendSpec, BackendProtocol) {
    let is_tls_port = values.tls.ports.get().unwrap_or(&PortSet::All).contains(port);
    let has_tls = has_certificate(values) && is_tls_port;
    let backends = values.protocols.backends.get().copied();
    match (has_tls, backends, hint) {
        (true, Some(AppProtocol::Http | AppProtocol::Https), _) => {
            (FrontendSpec::Https, http(backends, hint))
        }
        (true, Some(AppProtocol::Ssl), _) => (FrontendSpec::Ssl, BackendProtocol::Ssl),
        (true, None, Some(_)) => (FrontendSpec::Https, http(None, hint)),
        (true, Some(AppProtocol::Tcp) | None, _) => (FrontendSpec::Ssl, BackendProtocol::Tcp),
        (false, Some(AppProtocol::Http), _) => (HTTP, http(backends, hint)),
        (false, None, Some(ProtocolHint::Http | ProtocolHint::Http2)) => (HTTP, http(None, hint)),
        // Without a certificate, TLS passes through.
        (false, _, _) => (FrontendSpec::Tcp, BackendProtocol::Tcp),
    }
}

/// Returns the protocol of backends behind a listener that relays bytes.
fn byte_stream(protocol: AppProtocol) -> BackendProtocol {
    match protocol {
        AppProtocol::Https | AppProtocol::Ssl => BackendProtocol::Ssl,
        AppProtocol::Http | AppProtocol::Tcp => BackendProtocol::Tcp,
    }
}

/// Returns the protocol of backends behind a listener that relays HTTP requests. An annotation selects TLS, and the
/// hint selects the version of HTTP.
fn http(annotated: Option<AppProtocol>, hint: Option<ProtocolHint>) -> BackendProtocol {
    match (annotated, hint) {
        (Some(AppProtocol::Https | AppProtocol::Ssl), _) | (None, Some(ProtocolHint::Https)) => {
            BackendProtocol::Https
        }
        (_, Some(ProtocolHint::Http2)) => BackendProtocol::Http2,
        _ => BackendProtocol::Http,
    }
}

/// Reports ports that annotations name and that the Service does not have.
fn check_port_names(values: &AnnotationValues, service: &Service, errors: &mut Vec<AnnotationError>) {
    let tls_ports = match (values.tls.ports.source(), values.tls.ports.get()) {
        (Some(source), Some(PortSet::Of(ports))) => ports.iter().map(|port| (source, port)).collect(),
        _ => Vec::new(),
    };
    let protocol_ports = values.protocols.ports.iter();
    let protocol_ports = protocol_ports.map(|(source, port, _)| (*source, port));
    for (source, named) in tls_ports.into_iter().chain(protocol_ports) {
        if service.spec.ports.iter().any(|port| named.matches(port)) {
            continue;
        }
        let value = match named {
            PortRef::Number(number) => number.to_string(),
            PortRef::Name(name) => name.clone(),
        };
        errors.push(AnnotationError::InvalidValue {
            annotation: source.to_owned(),
            value,
            allowed: "names or numbers of the Service's ports".to_owned(),
        });
    }
}
