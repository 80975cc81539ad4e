//! Settings of one Service for the edge.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use api::object::{AddressType, EndpointSlice, ObjectKey, Protocol, Service};
use edge::settings::{AccessLog, Backend, Frontend, Listener, LogDestination, ServiceSettings, Tls};

use super::backend_budget::BackendBudget;
use super::{CookieSecret, EdgeState, ServedService};
use crate::annotations::{AccessLogSpec, FrontendSpec, ListenerSpec, PORT_RANGES_ANNOTATION};
use crate::serving::AllowedBuckets;

impl EdgeState {
    /// Builds the settings of a Service, and the faults that Events report.
    pub(super) fn build(&self, key: &ObjectKey, served: &ServedService) -> (ServiceSettings, Vec<String>) {
        let spec = &served.spec;
        let mut faults = Vec::new();
        let mut certificates = Vec::new();
        for secret in served.secrets() {
            match self.certificates.get(&key.namespace, &secret) {
                Some(Ok(certificate)) => certificates.push(certificate),
                Some(Err(error)) => faults.push(error.to_string()),
                None => {}
            }
        }
        if let (CookieSecret::Missing(error), true) = (&self.cookie_secret, served.has_cookies()) {
            faults.push(format!(
                "clients can derive the backend from a sticky-session cookie: {error}"
            ));
        }
        if served
            .service
            .metadata
            .annotations
            .contains_key(PORT_RANGES_ANNOTATION)
        {
            faults.push(format!(
                "annotation {PORT_RANGES_ANNOTATION} has no effect at the edge: only the ports of spec.ports are served"
            ));
        }
        let tls = Tls {
            certificates,
            policy: spec.tls_policy,
            alpn: spec.alpn,
            hosts: None,
        };
        let mut budget = BackendBudget::new();
        let listeners = spec.listeners.iter();
        let listeners: Vec<Listener> = listeners
            .map(|listener| self.listener(key, &served.service, listener, &tls, &mut budget))
            .collect();
        faults.extend(budget.fault());
        let settings = ServiceSettings {
            addresses: self.addresses_of(served).into_iter().collect(),
            listeners,
            policy: spec.policy.clone(),
            access_log: spec
                .access_log
                .as_ref()
                .and_then(|log| self.access_log(&key.namespace, log, &mut faults)),
            routes: None,
        };
        (settings, faults)
    }

    fn listener(
        &self,
        key: &ObjectKey,
        service: &Service,
        spec: &ListenerSpec,
        tls: &Tls,
        budget: &mut BackendBudget,
    ) -> Listener {
        let is_local = service.spec.external_traffic_policy == "Local";
        Listener {
            name: Arc::clone(&spec.name),
            port: spec.port,
            frontend: match spec.frontend {
                FrontendSpec::Tcp => Frontend::Tcp,
                FrontendSpec::Ssl => Frontend::Ssl(tls.clone()),
                FrontendSpec::Http { redirects_to_https } => Frontend::Http { redirects_to_https },
                FrontendSpec::Https => Frontend::Https(tls.clone()),
                FrontendSpec::Udp => Frontend::Udp,
            },
            backend_protocol: spec.backend_protocol,
            backends: budget.take(|| self.backends(key, service, spec, is_local)),
        }
    }

    /// Returns the endpoints of a port. Endpoints of the Service's first family have precedence: the other family lists
    /// the same Pods. With `is_local`, only endpoints of this node are used.
    pub(super) fn backends(
        &self,
        key: &ObjectKey,
        service: &Service,
        port: &ListenerSpec,
        is_local: bool,
    ) -> Vec<Backend> {
        let slices_of_family = |family: AddressType| {
            let slices = self.slices.get(key).into_iter().flat_map(HashMap::values);
            let slices = slices.filter(|slice| slice.address_type == family);
            let mut backends: Vec<Backend> = slices
                .flat_map(|slice| self.backends_of(slice, port, is_local))
                .collect();
            backends.sort_by_key(|backend| (backend.address, !backend.is_ready));
            backends.dedup_by_key(|backend| backend.address);
            backends
        };
        let families = match service.spec.ip_families.first().map(String::as_str) {
            Some("IPv6") => [AddressType::IPv6, AddressType::IPv4],
            _ => [AddressType::IPv4, AddressType::IPv6],
        };
        let first = slices_of_family(families[0]);
        if first.is_empty() {
            return slices_of_family(families[1]);
        }
        first
    }

    fn backends_of(&self, slice: &EndpointSlice, port: &ListenerSpec, is_local: bool) -> Vec<Backend> {
        let mut ports = slice.ports.iter();
        let target = ports.find(|of_slice| {
            of_slice.name.as_deref().unwrap_or_default() == &*port.name
                && of_slice.protocol.unwrap_or(Protocol::Tcp) == port.protocol
        });
        let Some(number) = target.and_then(|target| target.port) else {
            return Vec::new();
        };
        let endpoints = slice.endpoints.iter();
        let eligible =
            endpoints.filter(|endpoint| !is_local || endpoint.node_name.as_deref() == Some(&*self.node.name));
        let backends = eligible.filter_map(|endpoint| {
            let ip: IpAddr = endpoint.addresses.first()?.parse().ok()?;
            let conditions = &endpoint.conditions;
            let is_serving = conditions.serving.or(conditions.ready) != Some(false);
            Some(Backend {
                address: SocketAddr::new(ip, number),
                zone: endpoint.zone.clone(),
                is_ready: conditions.ready != Some(false),
                is_serving_while_terminating: is_serving && conditions.terminating == Some(true),
            })
        });
        backends.collect()
    }

    /// Returns the destination of an access log: its bucket, or a directory with the name of the bucket if there is no
    /// S3. Namespaces may share a bucket, so file names in it start with the namespace.
    pub(super) fn access_log(
        &self,
        namespace: &str,
        spec: &AccessLogSpec,
        faults: &mut Vec<String>,
    ) -> Option<AccessLog> {
        let join = |first: &str, rest: &str| match rest {
            "" => first.to_owned(),
            rest => format!("{first}/{rest}"),
        };
        let (destination, prefix) = match &spec.bucket {
            Some(bucket) if self.node.buckets != AllowedBuckets::Unknown => {
                if !self.node.buckets.allow(bucket) {
                    faults.push(format!(
                        "no access log is written: expected a bucket of --edge-access-log-buckets on node {}, \
                         found {bucket}",
                        self.node.name
                    ));
                    return None;
                }
                let mut parts = spec.prefix.split('/').filter(|part| !part.is_empty());
                let prefix = if parts.next() == Some(namespace) {
                    Arc::clone(&spec.prefix)
                } else {
                    join(namespace, spec.prefix.trim_start_matches('/')).into()
                };
                (LogDestination::Bucket(Arc::clone(bucket)), prefix)
            }
            _ if !self.node.has_log_directory => {
                faults.push(
                    "no access log is written: the edge of this node has no directory; set --edge-access-log-directory"
                        .to_owned(),
                );
                return None;
            }
            Some(bucket) => (LogDestination::Directory, join(bucket, &spec.prefix).into()),
            None => (LogDestination::Directory, Arc::clone(&spec.prefix)),
        };
        Some(AccessLog {
            destination,
            prefix,
            interval: spec.interval,
            format: spec.format,
        })
    }
}
