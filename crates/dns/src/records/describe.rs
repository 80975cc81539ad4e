//! What the index knows of a name, in words.

use std::net::IpAddr;

use super::Index;
use super::grammar::{self, Asked, Part};
use super::names::reverse_address;
use super::pods::PodNames;
use super::select::Selection;
use super::service::{Entry, FactsKind};
use crate::wire::Name;

impl Index {
    /// Why a name of the cluster's zones is answered as it is: one sentence a line.
    pub fn describe(&self, name: &Name) -> Vec<String> {
        let name = name.to_lower();
        if let Some(zone_at) = name.suffix_offset(&self.settings.cluster_domain) {
            return self.describe_asked(grammar::read(&name, zone_at));
        }
        match reverse_address(&name) {
            Some(address) => self.describe_address(address),
            None => vec!["the name is in none of the cluster's zones".to_owned()],
        }
    }

    fn describe_asked(&self, asked: Asked<'_>) -> Vec<String> {
        let line = match asked {
            Asked::Apex => "the zone itself: SOA and NS".to_owned(),
            Asked::NameServer => "the zone's name server: this server's addresses".to_owned(),
            Asked::Version => "the version of the DNS schema, as TXT".to_owned(),
            Asked::Branch(_) => "a part of the zone: it exists and has no records".to_owned(),
            Asked::Nothing => "no name of this form can exist in the zone".to_owned(),
            Asked::Namespace(label, _) => match self.has_namespace(label) {
                true => format!("namespace {} exists; it has no records", text(label)),
                false => format!("there is no namespace {}", text(label)),
            },
            Asked::Pod { label, namespace } => self.describe_pod(label, namespace),
            Asked::Service { key, part, .. } => return self.describe_service(key, part),
        };
        vec![line]
    }

    fn describe_pod(&self, label: &[u8], namespace: &[u8]) -> String {
        let namespace_text = text(namespace);
        match (super::pod::address_of_label(label), self.settings.pods) {
            (_, PodNames::Disabled) => "names of Pods are disabled (--pods)".to_owned(),
            (None, _) => "the label spells no address".to_owned(),
            (Some(address), PodNames::Verified) => match self.has_pod(address, namespace) {
                true => format!("a Pod of namespace {namespace_text} has {address}"),
                false => format!("no Pod of namespace {namespace_text} has {address} (--pods=verified)"),
            },
            (Some(address), PodNames::Insecure) => match self.has_namespace(namespace) {
                true => format!("the name spells {address}; no Pod is looked up (--pods=insecure)"),
                false => format!("there is no namespace {namespace_text}"),
            },
        }
    }

    fn describe_service(&self, key: &[u8], part: Part<'_>) -> Vec<String> {
        let mut name = Name::ROOT;
        let written = name.push_wire(key);
        let mut labels = name
            .labels()
            .map(|(_, label)| String::from_utf8_lossy(label).into_owned());
        let (service, namespace) = (
            labels.next().unwrap_or_default(),
            labels.next().unwrap_or_default(),
        );
        debug_assert!(written.is_ok(), "a key is two labels");
        self.with_entry(key, |entry| match entry {
            Some(entry) if entry.service.is_some() => {
                let mut lines = describe_entry(&format!("{namespace}/{service}"), entry);
                if !self.is_exposed(key) {
                    lines.push("its namespace is none of those that are served".to_owned());
                }
                lines.push(describe_part(self.select(key, entry, part), part));
                lines
            }
            _ => {
                let mut namespace_label = Name::ROOT;
                let has = namespace_label.push_label(namespace.as_bytes()).is_ok()
                    && self.has_namespace(namespace_label.as_wire().strip_suffix(&[0]).unwrap_or_default());
                let mut lines = vec![format!("there is no Service {namespace}/{service}")];
                if !has {
                    lines.push(format!("there is no namespace {namespace} either"));
                }
                lines
            }
        })
    }

    fn describe_address(&self, address: IpAddr) -> Vec<String> {
        let mut lines = Vec::new();
        for (index, what) in [(&self.cluster_ips, "cluster IP"), (&self.endpoints, "endpoint")] {
            index.read(address, |owners| {
                for owner in owners {
                    lines.push(format!(
                        "{address} is a {what} of Service {}",
                        text(owner.service.labels())
                    ));
                }
            });
        }
        if lines.is_empty() {
            lines.push(format!(
                "{address} is neither a cluster IP nor an endpoint: upstream may know it"
            ));
        }
        lines
    }
}

fn describe_entry(name: &str, entry: &Entry) -> Vec<String> {
    let Some(facts) = &entry.service else {
        return Vec::new();
    };
    let kind = match &facts.kind {
        FactsKind::ClusterIp(addresses) => {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            format!("has the cluster IPs [{}]", addresses.join(", "))
        }
        FactsKind::Headless => "is headless".to_owned(),
        FactsKind::External(Some(target)) => format!("is an ExternalName for {}", text(target)),
        FactsKind::External(None) => "is an ExternalName whose target is no name".to_owned(),
    };
    let ports: Vec<String> = facts
        .ports
        .iter()
        .filter(|port| port.number.is_some())
        .map(|port| {
            let protocol = port.protocol.map_or("", api::object::Protocol::as_str);
            format!("{}/{protocol} {}", port.name, port.number.unwrap_or(0))
        })
        .collect();
    let mut lines = vec![format!(
        "Service {name} {kind}; its ports are [{}]",
        ports.join(", ")
    )];
    for slice in &entry.slices {
        let ready = slice.endpoints().iter().filter(|endpoint| endpoint.ready).count();
        let waiting = slice.endpoints().len() - ready;
        lines.push(format!(
            "slice {}: {ready} ready, {waiting} not ready",
            slice.name
        ));
    }
    if facts.publish_not_ready {
        lines.push("publishNotReadyAddresses: those that are not ready are answered too".to_owned());
    }
    lines
}

fn describe_part(selection: Selection<'_>, part: Part<'_>) -> String {
    let asked = match part {
        Part::Whole => "the Service".to_owned(),
        Part::Endpoint(label) => format!("the endpoint {}", String::from_utf8_lossy(label)),
        Part::Port { name, protocol } => format!(
            "the port {} over {}",
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(protocol)
        ),
    };
    match selection {
        Selection::Nothing => format!("{asked} has nothing that is answered: the name does not exist"),
        Selection::ClusterIps(..) => format!("{asked} is answered with cluster IPs"),
        Selection::Endpoints(endpoints) => {
            format!("{asked} is answered with {} endpoints", endpoints.iter().count())
        }
        Selection::External(_) => format!("{asked} is answered with an alias"),
    }
}

/// Labels in wire form as text.
fn text(labels: &[u8]) -> String {
    let mut name = Name::ROOT;
    match name.push_wire(labels) {
        Ok(()) => name.to_string().trim_end_matches('.').to_owned(),
        Err(error) => error.to_string(),
    }
}
