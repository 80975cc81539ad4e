//! Metadata of names, as in CoreDNS' kubernetes plugin (DNS-26).

use super::Index;
use super::grammar::{self, Part, QueryTarget};
use crate::wire::Name;

/// Object that a name of the zone belongs to. Fields that the name does not contain are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// `svc` or `pod`.
    pub kind: &'static str,
    /// Namespace of the Service or Pod.
    pub namespace: String,
    /// Service, or the label with the address of the Pod.
    pub service: Option<String>,
    /// Host name of the endpoint, or its address with dashes.
    pub endpoint: Option<String>,
    /// Name of the port, without the underscore.
    pub port_name: Option<String>,
    /// Protocol of the port, without the underscore.
    pub protocol: Option<String>,
}

impl Index {
    /// Returns the metadata of a name, also if the name does not exist; `None` if the name belongs to neither a Service
    /// nor a Pod.
    pub fn metadata(&self, name: &Name) -> Option<Metadata> {
        let name = name.to_lower();
        let zone_at = name.suffix_offset(&self.settings.cluster_domain)?;
        match grammar::read(&name, zone_at, self.settings.kind) {
            QueryTarget::Service { key, part, .. } => {
                let (service, rest) = first_label(key)?;
                let mut metadata = Metadata {
                    kind: "svc",
                    namespace: first_label(rest)?.0,
                    service: Some(service),
                    ..Metadata::default()
                };
                match part {
                    Part::Whole => {}
                    Part::Endpoint(label) | Part::ClusterEndpoint { label, .. } => {
                        metadata.endpoint = Some(text(label))
                    }
                    Part::Port { name, protocol } => {
                        metadata.port_name = Some(text(name));
                        metadata.protocol = Some(text(protocol));
                    }
                }
                Some(metadata)
            }
            QueryTarget::Pod { label, namespace } => Some(Metadata {
                kind: "pod",
                namespace: first_label(namespace)?.0,
                service: Some(text(label)),
                ..Metadata::default()
            }),
            _ => None,
        }
    }
}

/// Splits labels with length prefixes into the first label and the rest.
fn first_label(labels: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = labels.split_first()?;
    let (label, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((text(label), rest))
}

fn text(label: &[u8]) -> String {
    String::from_utf8_lossy(label).into_owned()
}

#[cfg(test)]
mod tests;
