//! Desired state of one Service.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::object::{IngressPort, Labels, ObjectKey, Service};
use api::selector::LabelSelector;
use client::events::EventText;
use ipam::pools::Sharing;

use super::allocation::{Allocation, AssignmentError};
use super::findings::{Findings, bounded};
use super::node_pools::PortReservation;
use super::pools::{ParsedPool, eligible};
use super::service_update::{assign, clean_up, has_assigned_addresses, with_spec_changes};
use super::state::{AssignerState, WorkItem, former_holder_of, holder_of};
use super::{AddressRequest, Assignment, CLASS, CLASS_PREFIX, IngressMode, ServiceUpdate};
use crate::annotations::{self, EDGE_CLASS};

/// Desired state of a Service.
enum DesiredState {
    /// Never served by the assigner.
    Ignored,
    /// Without load balancer; the assigner removes its addresses, conditions and finalizer.
    CleanedUp,
    /// With load balancer.
    Assigned(Box<Assignment>, Findings),
}

/// Addresses and ports that a Service holds.
#[derive(PartialEq)]
struct Holdings {
    /// Addresses, and former ones that its status still names.
    addresses: Vec<IpAddr>,
    /// Condition for Services that share the addresses.
    sharing: Option<Sharing>,
    /// Ports at addresses of nodes.
    node_ports: Option<PortReservation>,
}

impl Holdings {
    fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.node_ports.is_none()
    }
}

impl AssignerState {
    /// Compares desired and observed state of a Service. Returns the update, if there is one, and other objects to
    /// reconcile because the Service released or received addresses, or shares them otherwise.
    pub(super) fn reconcile(&mut self, key: &ObjectKey) -> (Option<ServiceUpdate>, Vec<WorkItem>) {
        let Some(service) = self.services.get(key).cloned() else {
            return (None, Vec::new());
        };
        let before = self.holdings(key);
        let desired = self.desired_state(key, &service);
        let has_node_changes = self.node_changes.remove(key);
        let spec_changes = self.spec_changes.remove(key);
        let (update, mut work) = match desired {
            DesiredState::Ignored => {
                self.waiting.remove(key);
                (None, self.release(key))
            }
            DesiredState::CleanedUp => {
                self.waiting.remove(key);
                // The addresses stay allocated until the Service is observed without them.
                let mut update = clean_up(&service);
                if let (Some(update), Some(events)) = (&mut update, spec_changes) {
                    update.events_before.splice(..0, events);
                }
                let work = if update.is_none() {
                    self.release(key)
                } else {
                    Vec::new()
                };
                (update, work)
            }
            DesiredState::Assigned(assignment, findings) => {
                if assignment.failure.is_empty() && !assignment.is_incomplete {
                    self.waiting.remove(key);
                } else {
                    self.waiting.insert(key.clone());
                }
                let update = assign(&service, *assignment, &findings);
                let update = with_spec_changes(&service, update, spec_changes);
                (self.with_node_changes(update, has_node_changes), Vec::new())
            }
        };
        if self.holdings(key) != before {
            work.extend(self.all_pools());
            if !before.is_empty() {
                let others = self.waiting.iter().filter(|other| *other != key);
                work.extend(others.cloned().map(WorkItem::Service));
            }
        }
        (update, work)
    }

    /// Returns the addresses and ports that a Service holds.
    fn holdings(&self, key: &ObjectKey) -> Holdings {
        let holder = holder_of(key);
        let former = former_holder_of(key);
        let addresses = [&*holder, &*former].map(|holder| self.allocations.of(holder));
        Holdings {
            addresses: addresses.concat(),
            sharing: self.allocations.sharing_of(&holder).cloned(),
            node_ports: self.node_ports.of(key).cloned(),
        }
    }

    fn desired_state(&mut self, key: &ObjectKey, service: &Service) -> DesiredState {
        let class = service.spec.load_balancer_class.as_deref();
        let is_load_balancer =
            service.spec.kind == "LoadBalancer" && service.metadata.deletion_timestamp.is_none();
        if is_load_balancer && self.serves(class) {
            let (assignment, findings) = self.assignment(key, service);
            return DesiredState::Assigned(Box::new(assignment), findings);
        }
        if is_load_balancer && let Some(class) = class.filter(|class| class.starts_with(CLASS_PREFIX)) {
            let remedy = match class {
                EDGE_CLASS => "no node runs the edge, which `portolan balancer --edge` does".to_owned(),
                _ => format!("use {CLASS}, {EDGE_CLASS}, or none"),
            };
            let class = class.to_owned();
            let error = AssignmentError::UnservedClass { class, remedy };
            // An assigner with other options may have given it addresses.
            let mode = self.mode(&annotations::read(service));
            self.release_after(&error, key, service, mode);
            let assignment = Assignment {
                failure: error.to_string(),
                ..Assignment::default()
            };
            return DesiredState::Assigned(Box::new(assignment), Findings::default());
        }
        // The API server clears the class when the type of a Service changes.
        if self.is_ours(service) {
            DesiredState::CleanedUp
        } else {
            DesiredState::Ignored
        }
    }

    /// Returns the addresses that a Service gets, with the findings about its annotations.
    fn assignment(&mut self, key: &ObjectKey, service: &Service) -> (Assignment, Findings) {
        let mut reading = annotations::read(service);
        let mode = self.mode(&reading);
        let hostname = reading.hostname.take();
        let node_selectors = std::mem::take(&mut reading.nodes);
        let withheld = reading.restrictions.reason_to_withhold(self.options.has_edges);
        let withheld = withheld.or_else(|| self.reason_without_ip_mode(mode, service));
        // The reason of a withheld address mentions the edge itself.
        let is_edge_missing = reading.edge.is_some() && !self.options.has_edges && withheld.is_none();
        let findings = Findings::new(reading, is_edge_missing);
        let outcome = match withheld {
            Some(reason) => Err(AssignmentError::Withheld(reason)),
            None => self.allocate(key, service, mode, &node_selectors),
        };
        let (allocation, failure) = match outcome {
            Ok(allocation) => (allocation, String::new()),
            Err(error) => {
                self.release_after(&error, key, service, mode);
                (Allocation::default(), bounded(error.to_string()))
            }
        };
        let Allocation {
            addresses,
            is_of_nodes,
            is_incomplete,
        } = allocation;
        let announcement_failure = self.announcement_failure(service, &addresses, &node_selectors);
        let port_states = match mode {
            IngressMode::Proxy => self.port_states(key, service, &addresses, &node_selectors),
            IngressMode::Vip => BTreeMap::new(),
        };
        let pools = if is_of_nodes {
            self.node_ports.pool_of(key).unwrap_or_default().to_owned()
        } else {
            self.pools_of(key, service, &addresses)
        };
        let assignment = Assignment {
            is_pool_two_tier: self.is_pool_two_tier(&pools),
            pools,
            missing_family: if is_of_nodes || !is_incomplete {
                String::new()
            } else {
                missing_family(service, &addresses)
            },
            addresses,
            // Decided when the assignment is compared with the status.
            keeps_status: false,
            is_of_nodes,
            is_incomplete,
            mode,
            hostname,
            failure,
            findings: findings.text(),
            announcement_failure: announcement_failure.unwrap_or_default(),
            port_states,
        };
        (assignment, findings)
    }

    /// Releases the addresses and ports of a Service that cannot be assigned. Nodes serve the addresses in its status. These
    /// stay allocated until the Service is observed without them, also if writes of the status fail.
    fn release_after(
        &mut self,
        error: &AssignmentError,
        key: &ObjectKey,
        service: &Service,
        mode: IngressMode,
    ) {
        self.allocations.release(&former_holder_of(key));
        let named = self.addresses_in_status(service);
        self.hold(&holder_of(key), &named, service, mode);
        // Without endpoints the Service keeps the ports of the nodes for the next endpoints.
        if !matches!(error, AssignmentError::NoEndpoint(_)) {
            self.node_ports.release(key);
        }
    }

    /// Returns the reason to withhold addresses of the edge on an API server without `ipMode`, which is on by default
    /// since 1.30. Without `ipMode`, node proxies would forward connections to the endpoints instead of the edge. The
    /// first status that the server stores shows if it supports the field.
    fn reason_without_ip_mode(&mut self, mode: IngressMode, service: &Service) -> Option<String> {
        if mode != IngressMode::Proxy {
            return None;
        }
        let mut ingress = service.status.load_balancer.ingress.iter();
        let is_dropped = has_assigned_addresses(service) && ingress.any(|ingress| ingress.ip_mode.is_none());
        self.lacks_ip_mode |= is_dropped;
        self.lacks_ip_mode.then(|| {
            "the API server does not store ipMode, which the edge needs; use Kubernetes 1.30 or later, or remove the \
             settings of the edge; the address is withheld, since clients would bypass the edge"
                .to_owned()
        })
    }

    /// Returns the states of all ports, for each address at which an edge reports a fault. Only reports of nodes that
    /// may announce the address count.
    fn port_states(
        &self,
        key: &ObjectKey,
        service: &Service,
        addresses: &[IpAddr],
        node_selectors: &[LabelSelector],
    ) -> BTreeMap<IpAddr, Vec<IngressPort>> {
        if !self.reports.are_synced() {
            // Until all reports are read, the states in the status stay.
            let ingress = service.status.load_balancer.ingress.iter();
            let present = ingress.filter(|ingress| !ingress.ports.is_empty());
            let present =
                present.filter_map(|ingress| Some((ingress.ip.parse().ok()?, ingress.ports.clone())));
            return present
                .filter(|(address, _)| addresses.contains(address))
                .collect();
        }
        let at_address = |address: IpAddr| {
            let may_announce = |node: &str| {
                let labels = self.nodes.get(node);
                labels.is_some_and(|labels| self.may_announce(service, address, labels, node_selectors))
            };
            let ports = service.spec.ports.iter();
            let states: Vec<IngressPort> = ports
                .map(|port| IngressPort {
                    port: port.port,
                    protocol: port.protocol,
                    error: self
                        .reports
                        .error(key, address, (port.port, port.protocol), may_announce)
                        .map(str::to_owned),
                })
                .collect();
            let has_error = states.iter().any(|state| state.error.is_some());
            has_error.then_some((address, states))
        };
        addresses.iter().copied().filter_map(at_address).collect()
    }

    /// Returns true if pools and annotations allow a node with these labels to announce an address.
    fn may_announce(
        &self,
        service: &Service,
        address: IpAddr,
        labels: &Labels,
        node_selectors: &[LabelSelector],
    ) -> bool {
        let mut restricting = self
            .pools
            .values()
            .map(|pool| &pool.placement)
            .filter(|placement| placement.selects_nodes() && placement.contains(address))
            .filter(|placement| placement.is_announced(&service.metadata.labels));
        restricting.all(|placement| placement.allows_node(labels, &service.metadata.labels))
            && node_selectors
                .iter()
                .all(|selector| selector.matches(|key| labels.get(key).map(String::as_str)))
    }

    /// Adds Events about changes of nodes (CCM-06, CCM-07).
    fn with_node_changes(
        &self,
        update: Option<ServiceUpdate>,
        has_node_changes: bool,
    ) -> Option<ServiceUpdate> {
        let adds_finalizer = update.as_ref().is_some_and(|update| update.adds_finalizer);
        if self.nodes.is_empty() && (has_node_changes || adds_finalizer) {
            let mut update = update.unwrap_or_default();
            let message = "There are no available nodes for LoadBalancer";
            update
                .events_after
                .push(EventText::warning("UnAvailableLoadBalancer", message));
            return Some(update);
        }
        // Other Events of the update include the change of nodes.
        let has_events =
            |update: &ServiceUpdate| !update.events_before.is_empty() || !update.events_after.is_empty();
        if has_node_changes && !update.as_ref().is_some_and(has_events) {
            let mut update = update.unwrap_or_default();
            let message = "Updated load balancer with new hosts";
            update
                .events_after
                .push(EventText::normal("UpdatedLoadBalancer", message));
            return Some(update);
        }
        update
    }

    /// Returns the reason why no node may announce one of the addresses; `None` if there is a node for each.
    /// Annotations restrict the nodes by `node_selectors` (LBC-13).
    fn announcement_failure(
        &self,
        service: &Service,
        addresses: &[IpAddr],
        node_selectors: &[LabelSelector],
    ) -> Option<String> {
        addresses.iter().find_map(|address| {
            let (unannounced, announced): (Vec<_>, Vec<_>) = self
                .pools
                .iter()
                .filter(|(_, pool)| pool.placement.contains(*address))
                .partition(|(_, pool)| !pool.placement.is_announced(&service.metadata.labels));
            if let [(name, _), ..] = unannounced.as_slice()
                && announced.is_empty()
            {
                return Some(format!(
                    "{address} is announced by no node: no L2Advertisement selects IPAddressPool {name:?}"
                ));
            }
            let restricting: Vec<_> = announced
                .iter()
                .filter(|(_, pool)| pool.placement.selects_nodes())
                .collect();
            let may_every_node = restricting.is_empty() && node_selectors.is_empty();
            let may_announce = |labels: &Labels| self.may_announce(service, *address, labels, node_selectors);
            if may_every_node || self.nodes.values().any(may_announce) {
                return None;
            }
            let pools = restricting
                .iter()
                .map(|(name, pool)| format!("{} {name:?}", pool.source.node_selectors()));
            let annotations =
                (!node_selectors.is_empty()).then(|| "node selectors of annotations".to_owned());
            let selectors: Vec<String> = pools.chain(annotations).collect();
            Some(format!(
                "{address} is announced by no node: none that takes traffic matches {}",
                selectors.join(" and ")
            ))
        })
    }

    /// Returns the names of the pools of addresses, separated by commas. A pool that the Service may use comes before
    /// others.
    fn pools_of(&self, key: &ObjectKey, service: &Service, addresses: &[IpAddr]) -> String {
        let no_labels = Labels::new();
        let namespace = self.namespaces.get(&*key.namespace).unwrap_or(&no_labels);
        let is_internal = AddressRequest::of(service).is_ok_and(|request| request.is_internal);
        let eligible = eligible(&self.pools, service, is_internal, namespace);
        let mut names: Vec<&str> = Vec::new();
        for address in addresses {
            let mut pools = eligible.iter().filter(|name| {
                let pool = self.pools.get(&***name);
                pool.is_some_and(|pool| pool.placement.contains(*address))
            });
            if let Some(name) = pools.next()
                && !names.contains(&&**name)
            {
                names.push(name);
            }
        }
        names.join(",")
    }

    /// Returns true if one of the pools, separated by commas, requests two-tier forwarding. Both families of a Service
    /// have the same request.
    fn is_pool_two_tier(&self, pools: &str) -> bool {
        let mut pools = pools.split(',').filter_map(|name| self.pools.get(name));
        pools.any(ParsedPool::requests_two_tier)
    }
}

/// Returns the families that a Service prefers and has no address of, separated by commas (LBM-07).
fn missing_family(service: &Service, addresses: &[IpAddr]) -> String {
    let families = service.spec.ip_families.iter().map(String::as_str);
    let is_missing = |family: &&str| {
        let is_v4 = *family == "IPv4";
        !addresses.iter().any(|address| address.is_ipv4() == is_v4)
    };
    families.filter(is_missing).collect::<Vec<_>>().join(",")
}
