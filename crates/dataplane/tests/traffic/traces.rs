//! Traces of the packets that the tests send.

use std::net::SocketAddr;

use api::object::Protocol;
use explain::trace::{ChosenEndpoint, NodePorts, ProxySettings, Request, Trace, Verdict, trace};
use plan::{Packet, Plan};
use serde_json::{Value, json};

use crate::services::Cluster;
use crate::world::{Member, World};

/// Traces in one cluster.
pub(crate) struct Traces {
    objects: explain::World,
    proxy: ProxySettings,
}

impl Traces {
    pub(crate) fn of(cluster: &Cluster, world: &World, plan: &Plan) -> Self {
        let mut builder = explain::World::builder();
        cluster
            .objects()
            .into_iter()
            .for_each(|object| builder.add(object));
        for member in &world.members {
            builder.add(object(member));
        }
        let settings = plan.settings();
        builder.add(json!({"kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": settings.service_cidrs}}));
        Self {
            objects: builder.build(),
            proxy: ProxySettings {
                pods: Some(settings.pods.clone()),
                interface: None,
                masquerade_all: settings.masquerade_all,
                node_ports: NodePorts::All,
            },
        }
    }

    /// Returns the trace of a packet.
    pub(crate) fn of_packet(&self, client: &Member, packet: &Packet) -> Trace {
        let scheme = match packet.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        };
        let destination = SocketAddr::new(packet.destination, packet.port);
        let name = match client.name {
            "node" => "node/node".to_owned(),
            "outside" => packet.source.to_string(),
            pod => format!("pod/ns/{pod}"),
        };
        let mut request = Request::new(
            format!("{scheme}://{destination}").parse().expect("a URL"),
            name.parse().expect("a client"),
        );
        request.proxy = ProxySettings {
            interface: packet.interface,
            ..self.proxy.clone()
        };
        trace(&self.objects, &request).expect("a trace")
    }
}

/// The Pod or Node of a member; the external client has no object.
fn object(member: &Member) -> Value {
    let addresses = member.addresses;
    match member.name {
        "node" => {
            let addresses = addresses.map(|address| json!({"type": "InternalIP", "address": address}));
            json!({"kind": "Node", "metadata": {"name": "node"}, "status": {"addresses": addresses}})
        }
        "outside" => Value::Null,
        name => {
            let node = if name == "remote" { "other" } else { "node" };
            let addresses = addresses.map(|address| json!({"ip": address}));
            json!({"kind": "Pod", "metadata": {"namespace": "ns", "name": name}, "spec": {"nodeName": node},
                "status": {"podIPs": addresses}})
        }
    }
}

/// Checks that a trace states the endpoint that a real packet reached.
pub(crate) fn assert_endpoint(stated: &Trace, by: SocketAddr, is_masqueraded: bool, endpoints: usize) {
    assert_eq!(stated.verdict, Verdict::Reaches, "{stated:#?}");
    let listed: Vec<&ChosenEndpoint> = stated.paths.iter().flat_map(|path| &path.endpoints).collect();
    assert_eq!(listed.len(), endpoints, "{stated:#?}");
    let is_reached = |endpoint: &&&ChosenEndpoint| SocketAddr::new(endpoint.address, endpoint.port) == by;
    let endpoint = listed.iter().find(is_reached);
    let endpoint = endpoint.unwrap_or_else(|| panic!("{by} is missing in {stated:#?}"));
    assert_eq!(endpoint.masquerade, is_masqueraded, "{stated:#?}");
}
