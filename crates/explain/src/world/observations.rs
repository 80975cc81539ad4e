//! Observations of nodes, with indexes of the parts that concern one Service or Pod.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

use crate::observation::{Flow, Listener, NodeObservation, PodName, Probe};

/// Positions of an observation and of an entry of one of its parts.
type Position = (usize, usize);

/// Observations of nodes.
#[derive(Debug, Default)]
pub(crate) struct Observations {
    nodes: Vec<NodeObservation>,
    flows_by_destination: HashMap<IpAddr, Vec<Position>>,
    flows_by_destination_port: HashMap<u16, Vec<Position>>,
    /// Listeners of the nodes themselves, by port.
    node_listeners_by_port: HashMap<u16, Vec<Position>>,
    /// Listeners of inspected Pods. A Pod without listeners has an empty list.
    listeners_by_pod: HashMap<PodName, Vec<Position>>,
    /// Probes by namespace and name of their Service.
    probes_by_service: HashMap<String, Vec<Position>>,
    /// Probes without a Service, by the address of their target.
    probes_by_address: HashMap<IpAddr, Vec<Position>>,
}

fn push<K: Eq + Hash>(map: &mut HashMap<K, Vec<Position>>, key: K, position: Position) {
    map.entry(key).or_default().push(position);
}

fn service_key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

impl Observations {
    /// Adds an observation.
    pub(crate) fn push(&mut self, observation: NodeObservation) {
        let node = self.nodes.len();
        let conntrack = observation.conntrack.iter();
        let flows = conntrack
            .flat_map(|conntrack| conntrack.flows.iter().flatten())
            .enumerate();
        for (index, flow) in flows {
            push(&mut self.flows_by_destination, flow.destination, (node, index));
            if let Some(port) = flow.destination_port {
                push(&mut self.flows_by_destination_port, port, (node, index));
            }
        }
        self.index_listeners(&observation, node);
        for (index, probe) in observation.probes.iter().flatten().enumerate() {
            match (&probe.service, probe.address()) {
                (Some(service), _) => {
                    let key = service_key(&service.namespace, &service.name);
                    push(&mut self.probes_by_service, key, (node, index));
                }
                (None, Some(address)) => push(&mut self.probes_by_address, address, (node, index)),
                (None, None) => {}
            }
        }
        self.nodes.push(observation);
    }

    /// With a part of the listeners, a port seems to have none.
    fn index_listeners(&mut self, observation: &NodeObservation, node: usize) {
        let is_complete = observation.listeners.is_some() && !observation.is_truncated("listeners");
        if is_complete {
            for pod in observation.inspected_pods.iter().flatten() {
                self.listeners_by_pod.entry(pod.clone()).or_default();
            }
        }
        for (index, listener) in observation.listeners.iter().flatten().enumerate() {
            match &listener.pod {
                Some(pod) if is_complete => push(&mut self.listeners_by_pod, pod.clone(), (node, index)),
                Some(_) => {}
                None => push(&mut self.node_listeners_by_port, listener.port, (node, index)),
            }
        }
    }

    /// Returns all observations.
    pub(crate) fn all(&self) -> &[NodeObservation] {
        &self.nodes
    }

    /// Returns the observation of a Node.
    pub(crate) fn of_node(&self, name: &str) -> Option<&NodeObservation> {
        self.nodes
            .iter()
            .find(|observation| observation.metadata.name == name)
    }

    /// Returns the flows to an address, with the observations that contain them.
    pub(crate) fn flows_to(&self, address: IpAddr) -> impl Iterator<Item = (&NodeObservation, &Flow)> {
        self.flows(self.flows_by_destination.get(&address))
    }

    /// Returns the flows to a port of any address.
    pub(crate) fn flows_to_port(&self, port: u16) -> impl Iterator<Item = (&NodeObservation, &Flow)> {
        self.flows(self.flows_by_destination_port.get(&port))
    }

    fn flows<'o>(
        &'o self,
        positions: Option<&'o Vec<Position>>,
    ) -> impl Iterator<Item = (&'o NodeObservation, &'o Flow)> {
        let positions = positions.into_iter().flatten();
        positions.filter_map(|(node, index)| {
            let observation = self.nodes.get(*node)?;
            let flows = observation.conntrack.as_ref()?.flows.as_ref()?;
            Some((observation, flows.get(*index)?))
        })
    }

    /// Returns the listeners of a Pod with its own network namespace; `None` if they were not read.
    pub(crate) fn listeners_of_pod(&self, pod: &PodName) -> Option<Vec<&Listener>> {
        let positions = self.listeners_by_pod.get(pod)?;
        Some(
            self.listeners(Some(positions))
                .map(|(_, listener)| listener)
                .collect(),
        )
    }

    /// Returns the listeners on a port of the nodes themselves, with the observations that contain them.
    pub(crate) fn node_listeners_on(&self, port: u16) -> impl Iterator<Item = (&NodeObservation, &Listener)> {
        self.listeners(self.node_listeners_by_port.get(&port))
    }

    fn listeners<'o>(
        &'o self,
        positions: Option<&'o Vec<Position>>,
    ) -> impl Iterator<Item = (&'o NodeObservation, &'o Listener)> {
        let positions = positions.into_iter().flatten();
        positions.filter_map(|(node, index)| {
            let observation = self.nodes.get(*node)?;
            Some((observation, observation.listeners.as_ref()?.get(*index)?))
        })
    }

    /// Returns the probes that name a Service, with the observations that contain them.
    pub(crate) fn probes_of(
        &self,
        namespace: &str,
        name: &str,
    ) -> impl Iterator<Item = (&NodeObservation, &Probe)> {
        self.probes(self.probes_by_service.get(&service_key(namespace, name)))
    }

    /// Returns the probes of an address that name no Service.
    pub(crate) fn probes_to(&self, address: IpAddr) -> impl Iterator<Item = (&NodeObservation, &Probe)> {
        self.probes(self.probes_by_address.get(&address))
    }

    fn probes<'o>(
        &'o self,
        positions: Option<&'o Vec<Position>>,
    ) -> impl Iterator<Item = (&'o NodeObservation, &'o Probe)> {
        let positions = positions.into_iter().flatten();
        positions.filter_map(|(node, index)| {
            let observation = self.nodes.get(*node)?;
            Some((observation, observation.probes.as_ref()?.get(*index)?))
        })
    }
}
