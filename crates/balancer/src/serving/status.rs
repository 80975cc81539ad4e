//! What is told of a Service that the edge cannot serve as asked: the states of its ports in
//! `status.loadBalancer.ingress[].ports`, and Events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use api::object::{IngressPort, ObjectKey, Protocol, Resource, Service};
use client::{Client, ClientError, STRATEGIC_PATCH};
use edge::settings::ServiceName;
use edge::{Fault, Faults, PortKey, Transport};
use http::Method;
use serde_json::{Value, json};

use super::Addresses;
use super::world::Served;
use crate::write::port_status;

/// The errors of ports, as the API wants them: a domain of one's own, a slash, a word.
fn error_of(fault: &Fault) -> Option<&'static str> {
    Some(match fault {
        Fault::CannotListen { .. } => "portolan.dev/CannotListen",
        Fault::BadCertificate { .. } => "portolan.dev/BadCertificate",
        Fault::NoCertificate => "portolan.dev/NoCertificate",
        // Clients are served all the same: an Event says it.
        Fault::NoAccessLog { .. } => return None,
    })
}

/// The states of a Service's ports. All ports are told of, or none if all are well (as the API has it).
pub(super) fn ports(served: &Served, faults: &Faults) -> Vec<IngressPort> {
    let meta = &served.service.metadata;
    let name = ServiceName {
        namespace: meta.namespace.as_str().into(),
        name: meta.name.as_str().into(),
    };
    let refused = |port: u16, protocol: Protocol| {
        let mut refused = served.wish.refused.iter();
        refused
            .find(|refused| refused.port == port && refused.protocol == protocol)
            .map(|refused| refused.error)
    };
    let faulty = |port: u16, protocol: Protocol| {
        let transport = match protocol {
            Protocol::Udp => Transport::Udp,
            Protocol::Tcp | Protocol::Sctp => Transport::Tcp,
        };
        let key = PortKey {
            service: name.clone(),
            port,
            transport,
        };
        let faults = faults.get(&key).into_iter().flatten();
        // What keeps clients away altogether comes first.
        let mut errors: Vec<&str> = faults.filter_map(error_of).collect();
        errors.sort_by_key(|error| *error == "portolan.dev/BadCertificate");
        errors.first().copied()
    };
    let ports: Vec<IngressPort> = served
        .service
        .spec
        .ports
        .iter()
        .map(|port| IngressPort {
            port: port.port,
            protocol: port.protocol,
            error: refused(port.port, port.protocol)
                .or_else(|| faulty(port.port, port.protocol))
                .map(str::to_owned),
        })
        .collect();
    if ports.iter().all(|port| port.error.is_none()) {
        return Vec::new();
    }
    ports
}

/// The patch by which a Service tells that of the ports at these addresses; `None` if it does already. It is of the version
/// of the Service that was seen.
pub(super) fn patch(service: &Service, here: &Addresses, ports: &[IngressPort]) -> Option<Value> {
    let is_here = |ip: &str| ip.parse::<IpAddr>().is_ok_and(|ip| here.contains(&ip));
    let mut is_new = false;
    let ingress = service.status.load_balancer.ingress.iter().map(|said| {
        let mut entry = json!({"ip": said.ip});
        if !said.hostname.is_empty() {
            entry["hostname"] = json!(said.hostname);
        }
        if let Some(mode) = &said.ip_mode {
            entry["ipMode"] = json!(mode);
        }
        let ports = match is_here(&said.ip) {
            true => ports,
            false => said.ports.as_slice(),
        };
        is_new |= said.ports.as_slice() != ports;
        if !ports.is_empty() {
            entry["ports"] = ports.iter().map(port_status).collect();
        }
        entry
    });
    let ingress: Vec<Value> = ingress.collect();
    let meta = &service.metadata;
    is_new.then(|| {
        json!({
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"loadBalancer": {"ingress": ingress}},
        })
    })
}

/// Writes such a patch.
pub(super) async fn write(client: &Client, service: &ObjectKey, patch: &Value) -> Result<(), ClientError> {
    let path = format!(
        "{}/{}/status",
        Service::collection(Some(&service.namespace)),
        service.name
    );
    client
        .request(Method::PATCH, &path, STRATEGIC_PATCH, Some(patch))
        .await
        .map(drop)
}

/// What was told of each Service, so that nothing is told twice.
#[derive(Debug, Default)]
pub(super) struct Told(HashMap<ObjectKey, BTreeSet<String>>);

impl Told {
    /// What is to be told now that this is wrong with a Service.
    pub(super) fn news(&mut self, service: &ObjectKey, wrong: BTreeSet<String>) -> Vec<String> {
        if wrong.is_empty() {
            self.0.remove(service);
            return Vec::new();
        }
        let before = self.0.insert(service.clone(), wrong.clone()).unwrap_or_default();
        wrong
            .into_iter()
            .filter(|message| !before.contains(message))
            .collect()
    }
}

/// What the edge finds wrong with each Service, for people.
pub(super) fn messages(faults: &Faults) -> BTreeMap<ObjectKey, BTreeSet<String>> {
    let mut messages: BTreeMap<ObjectKey, BTreeSet<String>> = BTreeMap::new();
    for (port, faults) in faults {
        let key = ObjectKey::new(&port.service.namespace, &port.service.name);
        let of_service = messages.entry(key).or_default();
        for fault in faults {
            of_service.insert(format!("port {}/{}: {fault}", port.port, port.transport.name()));
        }
    }
    messages
}
