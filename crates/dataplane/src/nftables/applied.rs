//! Applied state: the Services that the kernel holds, as last written by this process.
//!
//! A change of Services is compared with this state and not with the kernel, so its cost grows with the changed
//! Services only. Elements that several Service ports share are counted: the first one adds the element, and the last
//! one removes it. Endpoints keep their indexes in a set, so that a change of one endpoint does not rewrite the others.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use api::object::ObjectKey;
use plan::{EndpointSet, Family, Plan};

use super::bytes::MapBytes;
use super::delegation::Delegation;
use super::layout::Map;
use super::local_redirects::with_local_redirects;
use super::map_element::{MapElement, difference};
use super::port::{Port, SharedElement};
use super::verdict_codes::VerdictCodes;

/// The applied Services.
#[derive(Debug, Default)]
pub(super) struct AppliedServices {
    services: HashMap<ObjectKey, Box<[Port]>>,
    /// Number of Service ports that use each shared element.
    counts: HashMap<SharedElement, u32>,
}

/// Elements to remove and to add.
#[derive(Debug, Default)]
pub(super) struct ElementDifference {
    /// Elements to remove.
    pub removed: Vec<MapElement>,
    /// Elements to add, after all removals.
    pub added: Vec<MapElement>,
}

impl AppliedServices {
    /// Returns the Services with their ports.
    pub(super) fn services(&self) -> impl Iterator<Item = (&ObjectKey, &[Port])> {
        self.services.iter().map(|(key, ports)| (key, &**ports))
    }

    /// Returns the shared elements that at least one Service port uses.
    pub(super) fn shared(&self) -> impl Iterator<Item = SharedElement> + '_ {
        self.counts.keys().copied()
    }

    /// Returns true if a Service port uses this shared element.
    pub(super) fn has_shared(&self, shared: SharedElement) -> bool {
        self.counts.contains_key(&shared)
    }

    /// Passes each element of a map that belongs to a Service port to `each`.
    pub(super) fn each_element(&self, map: Map, family: Family, each: &mut dyn FnMut(MapElement)) {
        let mut elements = Vec::new();
        for (service, ports) in self.services() {
            for port in ports.iter().filter(|port| port.family() == family) {
                port.append_elements(map, &comment(service, port), &mut elements);
            }
            elements.drain(..).for_each(&mut *each);
        }
    }

    /// Returns the ports of a Service.
    pub(super) fn ports(&self, service: &ObjectKey) -> &[Port] {
        self.services
            .get(service)
            .map(|ports| &**ports)
            .unwrap_or_default()
    }

    /// Returns the ports that the plan has for a Service. Endpoints keep their applied indexes.
    pub(super) fn planned(
        &self,
        plan: &Plan,
        service: &ObjectKey,
        delegation: &Delegation,
        codes: &mut VerdictCodes,
    ) -> Box<[Port]> {
        let mut by_key: HashMap<MapBytes, &Port> = HashMap::new();
        for port in self.ports(service) {
            by_key.entry(port.key()).or_insert(port);
        }
        let former = |key: &MapBytes, set: EndpointSet| -> Vec<SocketAddr> {
            let port = by_key.get(key).copied();
            let endpoints = port.into_iter().flat_map(|port| port.endpoints(set));
            endpoints.map(|backend| backend.address).collect()
        };
        planned_ports(plan, service, delegation, former, codes)
    }

    /// Replaces the ports of a Service and returns the former ones. Changed elements are appended: those of the
    /// Service to `own`, shared ones to `common`.
    pub(super) fn replace(
        &mut self,
        service: &ObjectKey,
        ports: Box<[Port]>,
        own: &mut ElementDifference,
        common: &mut ElementDifference,
    ) -> Box<[Port]> {
        let former = if ports.is_empty() {
            self.services.remove(service).unwrap_or_default()
        } else {
            self.services.insert(service.clone(), ports).unwrap_or_default()
        };
        let now = self
            .services
            .get(service)
            .map(|ports| &**ports)
            .unwrap_or_default();
        let (removed, added) = difference(elements(service, &former), elements(service, now));
        own.removed.extend(removed);
        own.added.extend(added);
        for shared in now.iter().flat_map(Port::shared) {
            let count = self.counts.entry(shared).or_default();
            *count += 1;
            if *count == 1 {
                common.added.push(shared.element());
            }
        }
        for shared in former.iter().flat_map(Port::shared) {
            if let Some(count) = self.counts.get_mut(&shared) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&shared);
                    common.removed.push(shared.element());
                }
            }
        }
        former
    }
}

/// Returns the ports that the plan has for a Service: Service ports, port ranges and answers to echo requests. `former`
/// returns the applied endpoints of a set by index. A listener knows one port only, so ranges keep their endpoints with
/// local redirects, too.
pub(super) fn planned_ports(
    plan: &Plan,
    service: &ObjectKey,
    delegation: &Delegation,
    former: impl Fn(&MapBytes, EndpointSet) -> Vec<SocketAddr>,
    codes: &mut VerdictCodes,
) -> Box<[Port]> {
    let local_redirects = delegation.local_redirects();
    let settings = Some(plan.settings()).filter(|_| delegation.has_virtual_servers());
    let mut ports: Vec<Port> = plan
        .ports_of(service)
        .map(|port| {
            let port = with_local_redirects(local_redirects, port);
            Port::new(&port, settings, &former, |verdict_chain| {
                codes.code(verdict_chain)
            })
        })
        .collect();
    let ranges = plan.ranges_of(service);
    ports.extend(
        ranges.map(|range| Port::new(range, None, &former, |verdict_chain| codes.code(verdict_chain))),
    );
    let pings = plan.pings_of(service);
    ports.extend(pings.map(|ping| Port::of_ping(ping, |verdict_chain| codes.code(verdict_chain))));
    ports.into()
}

/// Returns the comment on the elements of a Service port.
pub(super) fn comment(service: &ObjectKey, port: &Port) -> Arc<str> {
    match port.name() {
        "" => service.to_string().into(),
        name => format!("{service}:{name}").into(),
    }
}

fn elements(service: &ObjectKey, ports: &[Port]) -> Vec<MapElement> {
    let mut elements = Vec::new();
    for port in ports {
        port.append_all_elements(&comment(service, port), &mut elements);
    }
    elements
}
