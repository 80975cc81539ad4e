//! Description of the index entries of a name, for `explain`.

use std::net::IpAddr;

use super::Index;
use super::grammar::{self, Part, QueryTarget};
use super::pods::PodNames;
use super::reverse::reverse_address;
use super::selection::Selection;
use super::service::{ServiceEntry, ServiceKind};
use crate::wire::Name;

impl Index {
    /// Explains the answer for a name of the cluster's zones, one sentence per line.
    pub fn describe(&self, name: &Name) -> Vec<String> {
        let name = name.to_lower();
        if let Some(zone_at) = name.suffix_offset(&self.settings.cluster_domain) {
            return self.describe_target(grammar::read(&name, zone_at, self.settings.kind));
        }
        match reverse_address(&name) {
            Some(address) => self.describe_address(address),
            None => vec!["the name is outside of the cluster's zones".to_owned()],
        }
    }

    fn describe_target(&self, target: QueryTarget<'_>) -> Vec<String> {
        let line = match target {
            QueryTarget::Apex => "the zone itself: SOA and NS".to_owned(),
            QueryTarget::NameServer => "the name server of the zone: the addresses of this server".to_owned(),
            QueryTarget::Version => "the version of the DNS schema, as TXT".to_owned(),
            QueryTarget::Branch(_) => {
                "an empty non-terminal of the zone: it exists without records".to_owned()
            }
            QueryTarget::Invalid => "the zone cannot contain a name of this form".to_owned(),
            QueryTarget::Namespace(label, _) => {
                if self.has_namespace(label) {
                    format!("namespace {} exists, without records of its own", text(label))
                } else {
                    format!("namespace {} does not exist", text(label))
                }
            }
            QueryTarget::Pod { label, namespace } => self.describe_pod(label, namespace),
            QueryTarget::Service { key, part, .. } => return self.describe_service(key, part),
        };
        vec![line]
    }

    fn describe_pod(&self, label: &[u8], namespace: &[u8]) -> String {
        let namespace_text = text(namespace);
        match (super::pod_label::address_of_label(label), self.settings.pods) {
            (_, PodNames::Disabled) => "Pod names are disabled (--pods)".to_owned(),
            (None, _) => "the label is not an address".to_owned(),
            (Some(address), PodNames::Verified) => {
                if self.has_pod(address, namespace) {
                    format!("a Pod of namespace {namespace_text} has {address}")
                } else {
                    format!("no Pod of namespace {namespace_text} has {address} (--pods=verified)")
                }
            }
            (Some(address), PodNames::Insecure) => {
                if self.has_namespace(namespace) {
                    format!(
                        "the name contains {address}; the server does not check for a Pod (--pods=insecure)"
                    )
                } else {
                    format!("namespace {namespace_text} does not exist")
                }
            }
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
                    lines.push("the server does not serve its namespace".to_owned());
                }
                lines.push(describe_part(self.filter(key, entry, part), part));
                lines
            }
            _ => {
                let mut namespace_label = Name::ROOT;
                let has = namespace_label.push_label(namespace.as_bytes()).is_ok()
                    && self.has_namespace(namespace_label.as_wire().strip_suffix(&[0]).unwrap_or_default());
                let mut lines = vec![format!("Service {namespace}/{service} does not exist")];
                if !has {
                    lines.push(format!("namespace {namespace} does not exist"));
                }
                lines
            }
        })
    }

    fn describe_address(&self, address: IpAddr) -> Vec<String> {
        let mut lines = Vec::new();
        for (index, role) in [(&self.cluster_ips, "cluster IP"), (&self.endpoints, "endpoint")] {
            index.read(address, |owners| {
                for owner in owners {
                    lines.push(format!(
                        "{address} is a {role} of Service {}",
                        text(owner.service.labels())
                    ));
                }
            });
        }
        if lines.is_empty() {
            lines.push(format!(
                "{address} is neither a cluster IP nor an endpoint: the query is forwarded"
            ));
        }
        lines
    }
}

fn describe_entry(name: &str, entry: &ServiceEntry) -> Vec<String> {
    let Some(data) = &entry.service else {
        return Vec::new();
    };
    let kind = match &data.kind {
        ServiceKind::ClusterIp(addresses) => {
            let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            format!("has the cluster IPs [{}]", addresses.join(", "))
        }
        ServiceKind::Headless => "is headless".to_owned(),
        ServiceKind::External(Some(target)) => format!("is an ExternalName for {}", text(target)),
        ServiceKind::External(None) => "is an ExternalName whose target is not a valid name".to_owned(),
    };
    let ports: Vec<String> = data
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
        let unready = slice.endpoints().len() - ready;
        lines.push(format!(
            "slice {}: {ready} ready, {unready} not ready",
            slice.name
        ));
    }
    if data.publish_not_ready {
        lines.push("publishNotReadyAddresses: answers contain endpoints that are not ready".to_owned());
    }
    lines
}

fn describe_part(selection: Selection<'_>, part: Part<'_>) -> String {
    let target = match part {
        Part::Whole => "the Service".to_owned(),
        Part::Endpoint(label) => format!("the endpoint {}", String::from_utf8_lossy(label)),
        Part::ClusterEndpoint { label, cluster } => format!(
            "the endpoint {} of cluster {}",
            String::from_utf8_lossy(label),
            String::from_utf8_lossy(cluster)
        ),
        Part::Port { name, protocol } => format!(
            "the port {} over {}",
            String::from_utf8_lossy(name),
            String::from_utf8_lossy(protocol)
        ),
    };
    match selection {
        Selection::Nothing => format!("{target} does not exist"),
        Selection::ClusterIps(..) => format!("{target} resolves to cluster IPs"),
        Selection::Endpoints(endpoints) => {
            format!("{target} resolves to {} endpoints", endpoints.iter().count())
        }
        Selection::External(_) => format!("{target} resolves to an alias"),
    }
}

/// Converts labels in wire form to text.
fn text(labels: &[u8]) -> String {
    let mut name = Name::ROOT;
    match name.push_wire(labels) {
        Ok(()) => name.to_string().trim_end_matches('.').to_owned(),
        Err(error) => error.to_string(),
    }
}
