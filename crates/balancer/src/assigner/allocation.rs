//! Addresses of one Service: from ranges of pools, or those of nodes.
//!
//! A Service has addresses of one kind. It keeps the pool of node addresses that it has, or its addresses of ranges. A
//! new Service gets the kind of the best pool: the highest priority, then the first name. If that kind has no address,
//! the other kind follows, unless the Service names a pool or waits for an endpoint. Former addresses stay allocated
//! until the Service is observed without them, so no other Service gets them while its status still has them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use api::object::{Labels, ObjectKey, Service};
use api::selector::LabelSelector;
use ipam::pools::{AssignError, Family, FamilyPolicy, Holder, Request};

use super::address_request::{self, port_use};
use super::node_pools::{self, PortConflict, ServicePort};
use super::pools::eligible;
use super::service_update::has_assigned_addresses;
use super::state::{AssignerState, addresses_of, former_holder_of, holder_of, service_ports};
use super::{AddressRequest, IngressMode, RequestError};
use crate::ingress::class_service;

/// Failure to assign addresses; the message is the reason in the condition of the Service.
#[derive(Debug, thiserror::Error)]
pub(super) enum AssignmentError {
    /// Annotations restrict clients in a way that cannot be applied.
    #[error("{0}")]
    Withheld(String),
    /// The class is one of Portolan's that this assigner does not serve.
    #[error("class {class} is not served here: {remedy}")]
    UnservedClass {
        /// Class of the Service.
        class: String,
        /// What to do.
        remedy: String,
    },
    /// The request is invalid.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// No pool has the requested addresses.
    #[error(transparent)]
    Pools(#[from] AssignError),
    /// Other Services have the ports of the nodes.
    #[error(transparent)]
    Ports(#[from] PortConflict),
    /// A component of the cluster listens on the port.
    #[error(
        "port {port}/{protocol} of the nodes belongs to a component of the cluster: choose another port, or a pool with \
         addresses of its own"
    )]
    ReservedPort {
        /// Number of the port.
        port: u16,
        /// Protocol of the port.
        protocol: &'static str,
    },
    /// No node has an address.
    #[error("no ready node that AddressPool {pool:?} selects has an {address_type} of family {families}")]
    NoNode {
        /// Pool of node addresses.
        pool: String,
        /// Type of the addresses.
        address_type: &'static str,
        /// Families of the Service.
        families: String,
    },
    /// No node of the pool has an endpoint, and the policy is `Local`.
    #[error("no node of AddressPool {0:?} has a ready endpoint, as externalTrafficPolicy Local requires")]
    NoEndpoint(String),
    /// The edge listens on announced addresses only.
    #[error("annotations need the edge, which does not serve the addresses of nodes in AddressPool {0:?}")]
    Edge(String),
}

/// Addresses of a Service.
#[derive(Debug, Default)]
pub(super) struct Allocation {
    pub(super) addresses: Vec<IpAddr>,
    /// True if the addresses are those of nodes.
    pub(super) is_of_nodes: bool,
    /// True if other Services prevent some addresses.
    pub(super) is_incomplete: bool,
}

/// Service to allocate for.
struct Subject<'s> {
    key: &'s ObjectKey,
    service: &'s Service,
    mode: IngressMode,
    /// Selectors of annotations that nodes match (LBC-13).
    node_selectors: &'s [LabelSelector],
}

/// Use of a pool of node addresses.
enum NodePool {
    /// Before pools with ranges.
    First(String),
    /// If no pool with ranges has an address.
    Last(String),
    /// None that the Service may use.
    None,
}

impl AssignerState {
    /// Allocates the addresses that a Service requests. Other addresses in its status stay allocated until the Service is
    /// observed without them.
    pub(super) fn allocate(
        &mut self,
        key: &ObjectKey,
        service: &Service,
        mode: IngressMode,
        node_selectors: &[LabelSelector],
    ) -> Result<Allocation, AssignmentError> {
        self.allocations.release(&former_holder_of(key));
        let allocation = self.allocate_requested(key, service, mode, node_selectors)?;
        let mut former = self.addresses_in_status(service);
        former.retain(|address| !allocation.addresses.contains(address));
        self.hold(&former_holder_of(key), &former, service, mode);
        Ok(allocation)
    }

    /// Returns the addresses in the status of a Service that the assigner has given from ranges of pools.
    pub(super) fn addresses_in_status(&self, service: &Service) -> Vec<IpAddr> {
        if !has_assigned_addresses(service) {
            return Vec::new();
        }
        let mut named = addresses_of(service);
        named.retain(|address| self.pools.values().any(|pool| pool.placement.contains(*address)));
        named
    }

    /// Allocates only these addresses of a Service to a holder, except those of other holders.
    pub(super) fn hold(
        &mut self,
        holder: &Holder,
        addresses: &[IpAddr],
        service: &Service,
        mode: IngressMode,
    ) {
        let mut sharing = address_request::sharing(service).unwrap_or_default();
        sharing.set_port_use(port_use(service, mode));
        self.allocations.restore(holder, addresses, &sharing);
    }

    fn allocate_requested(
        &mut self,
        key: &ObjectKey,
        service: &Service,
        mode: IngressMode,
        node_selectors: &[LabelSelector],
    ) -> Result<Allocation, AssignmentError> {
        let mut request = AddressRequest::of(service)?;
        request.sharing.set_port_use(port_use(service, mode));
        let no_labels = Labels::new();
        let namespace = self.namespaces.get(&*key.namespace).unwrap_or(&no_labels);
        let eligible = eligible(&self.pools, service, request.is_internal, namespace);
        let subject = Subject {
            key,
            service,
            mode,
            node_selectors,
        };
        match self.node_pool(key, &request, &eligible) {
            NodePool::None => self.allocate_from_ranges(&subject, &request, &eligible),
            NodePool::First(pool) => match self.allocate_nodes(&subject, &request, &pool) {
                Err(error) if request.pool.is_none() && !matches!(error, AssignmentError::NoEndpoint(_)) => {
                    self.allocate_from_ranges(&subject, &request, &eligible)
                        .map_err(|_| error)
                }
                outcome => outcome,
            },
            NodePool::Last(pool) => match self.allocate_from_ranges(&subject, &request, &eligible) {
                Err(AssignmentError::Pools(error)) => self
                    .allocate_nodes(&subject, &request, &pool)
                    .map_err(|_| error.into()),
                outcome => outcome,
            },
        }
    }

    /// Allocates addresses of ranges.
    fn allocate_from_ranges(
        &mut self,
        subject: &Subject<'_>,
        request: &AddressRequest,
        eligible: &BTreeSet<Arc<str>>,
    ) -> Result<Allocation, AssignmentError> {
        let holder = holder_of(subject.key);
        if self.allocations.of(&holder).is_empty() {
            // The addresses of another controller are kept, such as MetalLB's.
            let mut addresses = addresses_of(subject.service);
            addresses.retain(|address| self.pools.values().any(|pool| pool.placement.contains(*address)));
            self.allocations.restore(&holder, &addresses, &request.sharing);
        }
        let addresses = self.allocations.assign(&Request {
            holder: &holder,
            families: &request.families,
            family_policy: request.family_policy,
            addresses: &request.addresses,
            pool: request.pool.as_deref(),
            eligible,
            sharing: request.sharing.clone(),
        })?;
        self.node_ports.release(subject.key);
        let is_any = request.addresses.is_empty() && request.family_policy == FamilyPolicy::Any;
        Ok(Allocation {
            is_incomplete: is_any && addresses.len() < request.families.len(),
            is_of_nodes: false,
            addresses,
        })
    }

    /// Chooses the pool of node addresses for a Service: the current one, the requested one, or the best one.
    fn node_pool(
        &self,
        key: &ObjectKey,
        request: &AddressRequest,
        eligible: &BTreeSet<Arc<str>>,
    ) -> NodePool {
        if !request.addresses.is_empty() {
            return NodePool::None;
        }
        let is_usable = |name: &str| {
            let pool = self.pools.get(name);
            pool.is_some_and(|pool| match &request.pool {
                Some(requested) => requested == name,
                None => pool.is_automatic(),
            })
        };
        let present = self.node_ports.pool_of(key);
        let rank = |name: &str| {
            self.pools
                .get(name)
                .map(|pool| std::cmp::Reverse(pool.priority()))
        };
        let best = |of_nodes: bool| {
            let names = eligible.iter().map(|name| &**name);
            let names = names.filter(|name| {
                let pool = self.pools.get(*name);
                is_usable(name) && pool.is_some_and(|pool| pool.node_addresses.is_some() == of_nodes)
            });
            names.min_by_key(|name| (rank(name), *name))
        };
        let Some(pool) = best(true) else {
            return NodePool::None;
        };
        let is_present_usable = present.is_some_and(|name| eligible.contains(name) && is_usable(name));
        if let Some(present) = present.filter(|_| is_present_usable) {
            return NodePool::First(present.to_owned());
        }
        let has_range = !self.allocations.of(&holder_of(key)).is_empty();
        match best(false) {
            Some(_) if has_range => NodePool::Last(pool.to_owned()),
            Some(range) if (rank(range), range) < (rank(pool), pool) => NodePool::Last(pool.to_owned()),
            _ => NodePool::First(pool.to_owned()),
        }
    }

    /// Allocates the addresses of the nodes that a pool selects.
    fn allocate_nodes(
        &mut self,
        subject: &Subject<'_>,
        request: &AddressRequest,
        name: &str,
    ) -> Result<Allocation, AssignmentError> {
        let key = subject.key;
        // Of the Services of the edge, only those of Ingresses have ports that all nodes serve alike.
        if subject.mode == IngressMode::Proxy && !class_service::is_of_class(subject.service) {
            self.node_ports.release(key);
            return Err(AssignmentError::Edge(name.to_owned()));
        }
        let is_reserved = |(protocol, port): &ServicePort| {
            node_pools::is_of_component((*protocol, *port), self.options.api_server_port)
        };
        let reserved = service_ports(subject.service).into_iter().find(is_reserved);
        if let Some((protocol, port)) = reserved {
            self.node_ports.release(key);
            let protocol = protocol.as_str();
            return Err(AssignmentError::ReservedPort { port, protocol });
        }
        let candidates = self.candidates_of_nodes(subject, request, name);
        if candidates.is_empty() {
            self.node_ports.release(key);
            let families: Vec<&str> = request.families.iter().map(|family| family.name()).collect();
            let address_type = self.pools.get(name).and_then(|pool| pool.node_addresses);
            return Err(AssignmentError::NoNode {
                pool: name.to_owned(),
                address_type: address_type.map_or("address", |address_type| address_type.description()),
                families: families.join(" or "),
            });
        }
        let all: Vec<IpAddr> = candidates.iter().map(|(_, address)| *address).collect();
        let claimed = self
            .node_ports
            .claim(key, name, &all, &service_ports(subject.service))?;
        self.allocations.release(&holder_of(key));
        let is_incomplete = claimed.len() < all.len();
        let addresses = self.with_endpoints(subject, &candidates, claimed);
        if addresses.is_empty() {
            return Err(AssignmentError::NoEndpoint(name.to_owned()));
        }
        Ok(Allocation {
            addresses,
            is_of_nodes: true,
            is_incomplete,
        })
    }

    /// Returns the Nodes and addresses of a pool for the families of a Service, in the order of the families.
    fn candidates_of_nodes(
        &self,
        subject: &Subject<'_>,
        request: &AddressRequest,
        name: &str,
    ) -> Vec<(String, IpAddr)> {
        let Some(pool) = self.pools.get(name) else {
            return Vec::new();
        };
        let Some(address_type) = pool.node_addresses else {
            return Vec::new();
        };
        let selects = |labels: &Labels| {
            let mut selectors = subject.node_selectors.iter();
            pool.placement
                .allows_node(labels, &subject.service.metadata.labels)
                && selectors.all(|selector| selector.matches(|key| labels.get(key).map(String::as_str)))
        };
        let all = node_pools::addresses(&self.node_addresses, address_type, selects);
        let of_family = |family: &Family| {
            let of_family = all.iter().filter(|(_, address)| Family::of(*address) == *family);
            let mut of_family: Vec<(String, IpAddr)> = of_family
                .map(|(node, address)| ((*node).to_owned(), *address))
                .collect();
            of_family.sort_by_key(|(_, address)| *address);
            of_family.dedup_by_key(|(_, address)| *address);
            of_family
        };
        request.families.iter().flat_map(of_family).collect()
    }

    /// Returns the claimed addresses whose nodes have endpoints, if the policy is `Local` (LBK-14). Until the
    /// endpoints are read, the addresses in the status stay.
    fn with_endpoints(
        &self,
        subject: &Subject<'_>,
        candidates: &[(String, IpAddr)],
        claimed: Vec<IpAddr>,
    ) -> Vec<IpAddr> {
        if subject.service.spec.external_traffic_policy != "Local" {
            return claimed;
        }
        let mut addresses = claimed;
        if !self.endpoints.is_synced {
            let present = addresses_of(subject.service);
            addresses.retain(|address| present.contains(address));
            return addresses;
        }
        let nodes = self.endpoints.of(subject.key);
        addresses.retain(|address| {
            candidates
                .iter()
                .any(|(node, candidate)| candidate == address && nodes.contains(node.as_str()))
        });
        addresses
    }
}
