//! One pass over HNS: reads its state, and creates, modifies or deletes the objects that differ from the plan.
//!
//! The observed state decides, so a restart needs no clean-up. New endpoints come first, because load balancers refer
//! to them, and unused endpoints are deleted last. A failed change of a load balancer does not stop the pass, and the
//! next pass tries it again. If HNS does not modify load balancers, they are deleted and created.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use api::object::ObjectKey;
use plan::Plan;
use serde_json::json;

use crate::balancer::BalancerKey;
use crate::desired::{Desired, NewEndpoint, Planner};
use crate::endpoints::{EndpointIndex, addresses, is_of_proxy};
use crate::features::Features;
use crate::member_choice::{Fault, Member};
use crate::network::HnsNetwork;
use crate::operations::{Operation, ResolvedLoadBalancer, operations};
use crate::schema::{
    ENDPOINT_REMOTE, Endpoint, HnsId, IpConfiguration, LoadBalancer, POLICY_PROVIDER_ADDRESS, Policy,
    SchemaVersion,
};
use crate::service::{HnsError, HostNetworkService};
use crate::settings::{Settings, SettingsError};

/// Reasons why nothing was changed. A retry helps if HNS, the network or the settings change.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The state of HNS could not be read.
    #[error(transparent)]
    Hns(#[from] HnsError),
    /// The network or the node lacks a part.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// No network has the name. The plugin of the network creates it.
    #[error(
        "expected the HNS network {name:?}, found {found:?}; check networkName and the plugin of the network"
    )]
    NetworkNotFound {
        /// Expected name.
        name: String,
        /// Names of the networks.
        found: Vec<String>,
    },
    /// The endpoint of `sourceVip` could not be created. Load balancers do not work without it.
    #[error("endpoint of sourceVip {address}: {source}")]
    SourceVip {
        /// Address.
        address: IpAddr,
        /// Error of the call.
        #[source]
        source: HnsError,
    },
}

/// A failed change. The next pass tries again.
#[derive(Debug)]
pub struct Failure {
    /// Service of a load balancer; `None` for endpoints and deletions.
    pub service: Option<ObjectKey>,
    /// Address of an endpoint, or identifier of a load balancer.
    pub subject: String,
    /// Error of the call.
    pub error: HnsError,
}

/// Result of a pass.
#[derive(Debug, Default)]
pub struct Applied {
    /// Endpoints that were created.
    pub created_endpoints: usize,
    /// Endpoints that were deleted.
    pub deleted_endpoints: usize,
    /// Load balancers that were created.
    pub created: usize,
    /// Load balancers that were modified.
    pub modified: usize,
    /// Load balancers that were deleted.
    pub deleted: usize,
    /// Parts of Services that are not served as the plan states, sorted.
    pub faults: Vec<Fault>,
    /// Failed changes.
    pub failures: Vec<Failure>,
}

impl Applied {
    fn fail(&mut self, service: Option<ObjectKey>, subject: String, error: HnsError) {
        self.failures.push(Failure {
            service,
            subject,
            error,
        });
    }
}

/// Reconciliation of HNS with plans.
///
/// The state of HNS decides about each pass, so a restart of the process needs no clean-up.
pub struct Reconciler {
    settings: Settings,
    /// Last request for each load balancer.
    written: HashMap<HnsId, LoadBalancer>,
    /// False once HNS has refused to modify load balancers.
    can_modify: bool,
}

impl Reconciler {
    /// Creates a reconciliation with these settings.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            written: HashMap::new(),
            can_modify: true,
        }
    }

    /// Changes HNS to implement a plan. `preserving` has the Services that preserve the destination
    /// ([`preserves_destination`](crate::preserves_destination)).
    ///
    /// # Errors
    ///
    /// A [`ReconcileError`] if no load balancer was changed. Failures of single changes are in [`Applied::failures`].
    pub fn reconcile(
        &mut self,
        host: &mut impl HostNetworkService,
        plan: &Plan,
        preserving: &HashSet<ObjectKey>,
    ) -> Result<Applied, ReconcileError> {
        let features = Features::of(host.version()?);
        let network = self.network(host)?;
        self.settings.check(&network, features)?;
        let endpoints = host.endpoints()?;
        let observed = host.load_balancers()?;
        let index = EndpointIndex::new(&endpoints, &network.id);
        let planner = Planner {
            settings: &self.settings,
            network: &network,
            features,
            endpoints: &index,
        };
        let desired = planner.desired(plan, preserving);
        let mut applied = Applied::default();
        let created = create_endpoints(host, &network.id, &desired.new_endpoints, &mut applied)?;
        let resolved = resolve(&desired, &index, &created);
        let known: HashSet<&HnsId> = observed.iter().map(|balancer| &balancer.id).collect();
        self.written.retain(|id, _| known.contains(id));
        for operation in operations(&resolved, &observed, &self.written, self.can_modify) {
            self.apply(host, operation, &mut applied);
        }
        let stale = self.stale_endpoints(&endpoints, &network.id, &desired);
        delete_endpoints(host, stale, &observed, &mut applied);
        applied.faults = desired.faults.into_iter().collect();
        Ok(applied)
    }

    fn network(&self, host: &mut impl HostNetworkService) -> Result<HnsNetwork, ReconcileError> {
        let networks = host.networks()?;
        let name = &self.settings.network_name;
        let named = networks.iter().find(|network| network.name == *name);
        let read = named.map(HnsNetwork::read);
        read.ok_or_else(|| ReconcileError::NetworkNotFound {
            name: name.clone(),
            found: networks.into_iter().map(|network| network.name).collect(),
        })
    }

    fn apply(&mut self, host: &mut impl HostNetworkService, operation: Operation, applied: &mut Applied) {
        match operation {
            Operation::Delete(id) => {
                self.delete(host, &id, applied);
            }
            Operation::Create(to) => self.create(host, to, applied),
            Operation::Modify { id, to } => {
                let request = LoadBalancer {
                    id: id.clone(),
                    ..to.request.clone()
                };
                match self.can_modify.then(|| host.modify_load_balancer(&request)) {
                    Some(Ok(())) => {
                        applied.modified += 1;
                        self.written.insert(id, to.request);
                    }
                    outcome => {
                        if let Some(Err(HnsError::NotImplemented { .. })) = outcome {
                            self.can_modify = false;
                        }
                        if self.delete(host, &id, applied) {
                            self.create(host, to, applied);
                        }
                    }
                }
            }
        }
    }

    fn create(
        &mut self,
        host: &mut impl HostNetworkService,
        to: ResolvedLoadBalancer,
        applied: &mut Applied,
    ) {
        match host.create_load_balancer(&to.request) {
            Ok(id) => {
                applied.created += 1;
                self.written.insert(id, to.request);
            }
            Err(error) => {
                let subject = to.request.frontend_vips.join(",");
                applied.fail(Some(to.service), subject, error);
            }
        }
    }

    /// Deletes a load balancer, at the second attempt if the first one fails: Windows Server 2019 may fail once. Returns
    /// true if it no longer exists.
    fn delete(&mut self, host: &mut impl HostNetworkService, id: &HnsId, applied: &mut Applied) -> bool {
        let first = host.delete_load_balancer(id);
        let outcome = match first {
            Ok(()) | Err(HnsError::NotFound { .. }) => first,
            Err(_) => host.delete_load_balancer(id),
        };
        match outcome {
            Ok(()) | Err(HnsError::NotFound { .. }) => {
                applied.deleted += 1;
                self.written.remove(id);
                true
            }
            Err(error) => {
                applied.fail(None, id.as_str().to_owned(), error);
                false
            }
        }
    }

    /// Returns the endpoints of a proxy that no load balancer uses any more.
    fn stale_endpoints<'e>(
        &self,
        endpoints: &'e [Endpoint],
        network: &HnsId,
        desired: &Desired,
    ) -> Vec<&'e Endpoint> {
        let is_stale = |endpoint: &&Endpoint| {
            endpoint.host_compute_network == *network
                && is_of_proxy(endpoint, self.settings.host_mac)
                && !addresses(endpoint).any(|address| desired.used_addresses.contains(&address))
        };
        endpoints.iter().filter(is_stale).collect()
    }
}

/// Creates endpoints. Returns their identifiers by address.
fn create_endpoints(
    host: &mut impl HostNetworkService,
    network: &HnsId,
    endpoints: &[NewEndpoint],
    applied: &mut Applied,
) -> Result<HashMap<IpAddr, HnsId>, ReconcileError> {
    let mut created = HashMap::new();
    for endpoint in endpoints {
        let address = endpoint.address;
        match host.create_endpoint(&endpoint_request(endpoint, network)) {
            Ok(id) => {
                applied.created_endpoints += 1;
                created.insert(address, id);
            }
            Err(source) if !endpoint.is_remote => return Err(ReconcileError::SourceVip { address, source }),
            Err(error) => applied.fail(None, address.to_string(), error),
        }
    }
    Ok(created)
}

/// Returns the request that creates an endpoint.
fn endpoint_request(endpoint: &NewEndpoint, network: &HnsId) -> Endpoint {
    let policy = endpoint.provider_address.map(|address| Policy {
        kind: POLICY_PROVIDER_ADDRESS.to_owned(),
        settings: json!({"ProviderAddress": address.to_string()}),
    });
    Endpoint {
        host_compute_network: network.clone(),
        policies: policy.into_iter().collect(),
        ip_configurations: vec![IpConfiguration {
            ip_address: endpoint.address.to_string(),
            prefix_length: 0,
        }],
        mac_address: endpoint.mac.to_string(),
        flags: if endpoint.is_remote { ENDPOINT_REMOTE } else { 0 },
        schema_version: SchemaVersion::default(),
        ..Endpoint::default()
    }
}

/// Returns the load balancers with the identifiers of their endpoints. Endpoints that could not be created are left out.
fn resolve(
    desired: &Desired,
    index: &EndpointIndex<'_>,
    created: &HashMap<IpAddr, HnsId>,
) -> BTreeMap<BalancerKey, ResolvedLoadBalancer> {
    let id_of = |member: &Member| match member {
        Member::Endpoint(id) => Some(id.clone()),
        Member::Address(address) => {
            let observed = index.at(*address).map(|endpoint| endpoint.id.clone());
            observed.or_else(|| created.get(address).cloned())
        }
    };
    let mut resolved = BTreeMap::new();
    for (key, balancer) in &desired.balancers {
        let endpoints: Vec<HnsId> = balancer.members.iter().filter_map(id_of).collect();
        if !endpoints.is_empty() {
            let service = balancer.service.clone();
            let request = balancer.request(endpoints);
            resolved.insert(*key, ResolvedLoadBalancer { service, request });
        }
    }
    resolved
}

/// Deletes endpoints, except those of load balancers that could not be deleted.
fn delete_endpoints(
    host: &mut impl HostNetworkService,
    stale: Vec<&Endpoint>,
    observed: &[LoadBalancer],
    applied: &mut Applied,
) {
    let failed: HashSet<&str> = applied
        .failures
        .iter()
        .map(|failure| failure.subject.as_str())
        .collect();
    let in_use: HashSet<HnsId> = observed
        .iter()
        .filter(|balancer| failed.contains(balancer.id.as_str()))
        .flat_map(|balancer| balancer.endpoints.iter().cloned())
        .collect();
    for endpoint in stale {
        if in_use.contains(&endpoint.id) {
            continue;
        }
        match host.delete_endpoint(&endpoint.id) {
            Ok(()) | Err(HnsError::NotFound { .. }) => applied.deleted_endpoints += 1,
            Err(error) => applied.fail(None, endpoint.id.as_str().to_owned(), error),
        }
    }
}

#[cfg(test)]
mod tests;
