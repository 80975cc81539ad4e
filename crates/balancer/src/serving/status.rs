//! What is told of a Service that the edge cannot serve as asked: faults of its ports for the node's report
//! ([`crate::edge_report`]), and Events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use api::object::{ObjectKey, Protocol};
use edge::settings::ServiceName;
use edge::{Fault, Faults, PortKey, Transport};

use super::Addresses;
use super::world::Served;
use crate::edge_report::PortFault;

/// The errors of ports, as the API wants them: a domain of one's own, a slash, a word.
fn error_of(fault: &Fault) -> Option<&'static str> {
    Some(match fault {
        Fault::CannotListen { .. } => "portolan.dev/CannotListen",
        Fault::InvalidCertificate { .. } => "portolan.dev/BadCertificate",
        Fault::NoCertificate => "portolan.dev/NoCertificate",
        // Clients are served all the same: an Event says it.
        Fault::NoAccessLog { .. } => return None,
    })
}

/// The ports of a Service that cannot be served as asked at these addresses.
pub(super) fn port_faults(served: &Served, here: &Addresses, faults: &Faults) -> Vec<PortFault> {
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
    let ports = served.service.spec.ports.iter();
    let faulty = ports.filter_map(|port| {
        let number = (port.port, port.protocol);
        let error = refused(number.0, number.1).or_else(|| faulty(number.0, number.1))?;
        Some((number, error))
    });
    let at_address = |((port, protocol), error): ((u16, Protocol), &str)| {
        let error = error.to_owned();
        let fault = move |address: &IpAddr| PortFault {
            namespace: meta.namespace.clone(),
            service: meta.name.clone(),
            address: *address,
            port,
            protocol,
            error: error.clone(),
        };
        here.iter().map(fault).collect::<Vec<_>>()
    };
    faulty.flat_map(at_address).collect()
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
