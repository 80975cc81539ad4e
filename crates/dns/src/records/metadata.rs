//! What a name is about, in the words of the metadata of CoreDNS' kubernetes plugin (DNS-26).

use super::Index;
use super::grammar::{self, Asked, Part};
use crate::wire::Name;

/// What a name of the cluster's zone is about. What it does not name is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// `svc` or `pod`.
    pub kind: &'static str,
    /// The namespace.
    pub namespace: String,
    /// The Service, or the label that spells the Pod's address.
    pub service: Option<String>,
    /// Host name of the endpoint, or its address with dashes.
    pub endpoint: Option<String>,
    /// The port's name, without its underscore.
    pub port_name: Option<String>,
    /// The port's protocol, without its underscore.
    pub protocol: Option<String>,
}

impl Index {
    /// What a name is about, whether or not it exists; nothing if it is none of a Service's or Pod's.
    pub fn metadata(&self, name: &Name) -> Option<Metadata> {
        let name = name.to_lower();
        let zone_at = name.suffix_offset(&self.settings.cluster_domain)?;
        match grammar::read(&name, zone_at) {
            Asked::Service { key, part, .. } => {
                let (service, rest) = first_label(key)?;
                let mut metadata = Metadata {
                    kind: "svc",
                    namespace: first_label(rest)?.0,
                    service: Some(service),
                    ..Metadata::default()
                };
                match part {
                    Part::Whole => {}
                    Part::Endpoint(label) => metadata.endpoint = Some(text(label)),
                    Part::Port { name, protocol } => {
                        metadata.port_name = Some(text(name));
                        metadata.protocol = Some(text(protocol));
                    }
                }
                Some(metadata)
            }
            Asked::Pod { label, namespace } => Some(Metadata {
                kind: "pod",
                namespace: first_label(namespace)?.0,
                service: Some(text(label)),
                ..Metadata::default()
            }),
            _ => None,
        }
    }
}

/// The first of some labels with their lengths in front, and the others.
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
