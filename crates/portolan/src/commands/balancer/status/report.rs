//! Report about load balancing: state of the API and of the local process, and the problems in it. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use announcer::status::{AddressStatus, MemberStatus};
use api::address_pool::AddressBlock;
use api::object::{AddressPool, AddressPoolUsage, Lease, Service};
use balancer::annotations::EDGE_CLASS;
use balancer::assigner::{
    ANNOTATIONS_CONDITION, ASSIGNED_CONDITION, CLASS, IngressMode, NODE_ADDRESSES_REASON,
};
use balancer::metallb::POOL_ANNOTATION;
use edge::status::{BackendState, PortStatus};
use jiff::Timestamp;
use serde::Serialize;

use super::api_state::{ApiState, QueryResult};
use crate::balancer_endpoints::Status;
use crate::output::age;

/// Age of the announcer's status from which it counts as hung. It reports every second.
const STATUS_AGE_SECONDS_MAX: u64 = 10;

/// State of a BGP session that exchanges routes.
const ESTABLISHED: &str = "Established";

/// Report about load balancing.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    /// Problems, human-readable; empty if load balancing is healthy.
    pub problems: Vec<String>,
    /// Reason why the API was not queried, so that only this node is reported.
    #[serde(rename = "apiNotQueried", skip_serializing_if = "Option::is_none")]
    pub api_not_queried: Option<String>,
    /// Name of this Node, if load balancing runs on it.
    pub node: Option<String>,
    /// Identity of the assigner.
    pub assigner: Option<String>,
    /// True if a majority of the members responds; `None` without an announcer.
    pub is_quorate: Option<bool>,
    /// IP families without connection forwarding after planned moves, with the reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forwarding_unavailable: Vec<String>,
    /// Members, as this node sees them.
    pub members: Vec<MemberStatus>,
    /// Services, by name.
    pub services: Vec<ServiceReport>,
    /// Pools, by priority.
    pub pools: Vec<PoolReport>,
    /// BGP sessions of this node; `None` if it announces nothing by BGP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bgp: Option<speaker::Status>,
    /// Ports of the edge of this node.
    pub edge: Vec<PortStatus>,
}

/// Returns the problems of the BGP sessions of a node.
pub(super) fn bgp_problems(bgp: &speaker::Status) -> Vec<String> {
    let mut problems = bgp.faults.clone();
    for session in bgp.sessions.iter().filter(|session| session.state != ESTABLISHED) {
        let error = session.last_error.as_deref().unwrap_or("no error yet");
        problems.push(format!(
            "the BGP session with {} ({}) is not established: state {}, {error}",
            session.peer, session.address, session.state
        ));
    }
    problems
}

/// Report about a Service of type LoadBalancer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceReport {
    /// `namespace/name`.
    pub service: String,
    /// Assigned addresses.
    pub addresses: Vec<AddressReport>,
    /// Reason why addresses are missing.
    pub pending: Option<String>,
    /// Annotations that are not applied.
    pub remarks: Option<String>,
    /// Errors of its ports at the edge, such as `443/TCP: portolan.dev/NoCertificate`.
    pub port_errors: Vec<String>,
}

/// Report about an address of a Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AddressReport {
    /// IP address.
    pub ip: String,
    /// Pool of the address.
    pub pool: Option<String>,
    /// Announcing node.
    pub node: Option<String>,
    /// Component that accepts the connections: `edge` or `proxy`.
    pub accepted_by: &'static str,
    /// True for the address of a node, which is not announced.
    #[serde(skip)]
    pub is_of_node: bool,
}

/// Report about a pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PoolReport {
    /// Name of the pool.
    pub name: String,
    /// Addresses in use, per IP family.
    pub usage: Vec<AddressPoolUsage>,
}

impl Report {
    /// Combines the status of the local process, if it was read, and the state of the API.
    pub(super) fn new(local: Option<QueryResult<Status>>, api: ApiState, now: Timestamp) -> Self {
        let mut report = Self {
            api_not_queried: api.not_queried,
            ..Self::default()
        };
        let local = local.and_then(|local| local.map_err(|reason| report.problems.push(reason)).ok());
        let mut pools = report.available("AddressPools", api.pools).unwrap_or_default();
        pools.sort_by_key(|pool| (Reverse(pool.spec.priority), pool.metadata.name.clone()));
        let lease = report
            .available("the Lease of the assigner", api.assigner)
            .flatten();
        report.add_assigner(local.as_ref(), lease.as_ref(), now);
        if let Some(local) = &local {
            report.add_announcer(local);
        }
        match report.available("Services", api.services) {
            Some(services) => {
                let announcements = Announcements::new(local.as_ref(), api.announcing_nodes);
                report.add_services(&services, &pools, &announcements);
            }
            None => report.services = local.iter().flat_map(services_of_announcer).collect(),
        }
        report.pools = pools.into_iter().map(PoolReport::of).collect();
        if let Some(local) = local {
            report.bgp = local.bgp;
            report.edge = local.edge.unwrap_or_default();
            report.node = Some(local.node);
        }
        let problems = report.bgp.as_ref().map(bgp_problems);
        report.problems.extend(problems.unwrap_or_default());
        report.add_edge_problems();
        report
    }

    /// Returns the value of a reading, or adds a problem.
    fn available<T>(&mut self, subject: &str, reading: QueryResult<T>) -> Option<T> {
        let report = |reason: &String| self.problems.push(format!("{subject} not read: {reason}"));
        match self.api_not_queried {
            None => reading.inspect_err(report).ok(),
            Some(_) => reading.ok(),
        }
    }

    fn add_assigner(&mut self, local: Option<&Status>, lease: Option<&Lease>, now: Timestamp) {
        let assigns_here = local.is_some_and(|local| local.assigner.is_some());
        let held = lease.and_then(|lease| Some((lease.spec.holder_identity.as_deref()?, lease)));
        let held = held.filter(|(holder, _)| !holder.is_empty());
        self.assigner = match held {
            Some((holder, lease)) => {
                let renewed = lease.spec.renew_time.as_deref();
                let age_seconds = renewed.and_then(|time| seconds_since(time, now));
                let duration_seconds = lease.spec.lease_duration_seconds.unwrap_or_default();
                let is_expired =
                    age_seconds.is_none_or(|age| i64::try_from(age).unwrap_or(i64::MAX) > duration_seconds);
                match (is_expired, assigns_here) {
                    (false, _) => Some(holder.to_owned()),
                    // A single server holds no election.
                    (true, true) => Some("this process".to_owned()),
                    (true, false) => None,
                }
            }
            None => assigns_here.then(|| "this process".to_owned()),
        };
        if self.assigner.is_none() && held.is_some() {
            self.problems.push(
                "no addresses are assigned: the holder of the Lease kube-system/portolan-balancer does not renew it; is \
                 `portolan balancer` or `portolan up` running?"
                    .to_owned(),
            );
        }
    }

    /// Adds the state of the announcer, and its problems.
    fn add_announcer(&mut self, local: &Status) {
        let Some(announcer) = &local.announcer else { return };
        let status = &announcer.status;
        self.is_quorate = Some(status.is_quorate);
        self.members.clone_from(&status.members);
        self.forwarding_unavailable
            .clone_from(&status.forwarding_unavailable);
        match announcer.age_seconds {
            None => self.problems.push(
                "the announcer of this node has not started: it waits for its Node or for its UDP port"
                    .to_owned(),
            ),
            Some(seconds) if seconds > STATUS_AGE_SECONDS_MAX => {
                self.problems.push(format!(
                    "the announcer of this node has not reported for {}",
                    age(seconds)
                ));
            }
            Some(_) if !status.is_quorate => self.problems.push(
                "this node has no quorum: probes reach too few members; does a firewall block the UDP port?"
                    .to_owned(),
            ),
            Some(_) => {}
        }
        for member in status.members.iter().filter(|member| !member.is_reachable) {
            let last_probe = match member.probe_age_milliseconds {
                Some(ago) => format!("has not responded for {}", age(ago / 1_000)),
                None => "has never responded".to_owned(),
            };
            self.problems.push(format!(
                "{} {last_probe}; delete its Node if it does not return",
                member.node
            ));
        }
        for address in &status.addresses {
            if let Some(reason) = &address.withheld {
                let services = address.services.join(", ");
                self.problems
                    .push(format!("{} of {services} is withheld: {reason}", address.ip));
            }
        }
        for address in status.addresses.iter().filter(|address| address.waits_for_edge) {
            self.problems.push(format!(
                "{} of {} is not announced: this node owns it, but its edge does not serve it",
                address.ip,
                address.services.join(", ")
            ));
        }
    }

    fn add_services(&mut self, services: &[Service], pools: &[AddressPool], announcements: &Announcements) {
        for service in services {
            let Some(report) = ServiceReport::of(service, pools, announcements) else {
                continue;
            };
            let name = &report.service;
            if let Some(reason) = &report.pending {
                self.problems
                    .push(format!("{name} waits for an address: {reason}"));
            }
            let unannounced = |address: &&AddressReport| address.node.is_none() && !address.is_of_node;
            for address in report.addresses.iter().filter(unannounced) {
                if let Some(reason) = announcements.absence_reason(&address.ip) {
                    self.problems
                        .push(format!("{} of {name} is not announced: {reason}", address.ip));
                }
            }
            for error in &report.port_errors {
                self.problems.push(format!("{name} port {error}"));
            }
            self.services.push(report);
        }
        self.services.sort_by(|a, b| a.service.cmp(&b.service));
    }

    fn add_edge_problems(&mut self) {
        for port in &self.edge {
            let name = format!(
                "{}/{} port {}/{}",
                port.namespace, port.service, port.port, port.protocol
            );
            for fault in &port.faults {
                self.problems.push(format!("{name} at the edge: {fault}"));
            }
            let is_usable = |state| matches!(state, BackendState::Healthy | BackendState::Terminating);
            if !port.backends.iter().any(|backend| is_usable(backend.state)) {
                let reason = match port.backends.len() {
                    0 => "no endpoints".to_owned(),
                    count => format!("none of {count} backends is healthy"),
                };
                self.problems.push(format!("{name} at the edge: {reason}"));
            }
        }
    }
}

/// Announcing nodes.
struct Announcements {
    /// Status of the local announcer, by address.
    by_announcer: Option<BTreeMap<String, AddressStatus>>,
    /// Nodes in Events, by Service.
    by_events: BTreeMap<String, String>,
}

impl Announcements {
    fn new(local: Option<&Status>, by_events: BTreeMap<String, String>) -> Self {
        let announcer = local.and_then(|local| local.announcer.as_ref());
        let by_announcer = announcer.map(|announcer| {
            let addresses = announcer.status.addresses.iter();
            addresses
                .map(|address| (address.ip.to_string(), address.clone()))
                .collect()
        });
        Self {
            by_announcer,
            by_events,
        }
    }

    fn node(&self, service: &str, ip: &str) -> Option<String> {
        match &self.by_announcer {
            Some(addresses) => addresses.get(ip)?.node.as_deref().map(str::to_owned),
            None => self.by_events.get(service).cloned(),
        }
    }

    /// Returns the reason why no node announces an address; `None` if there is no local announcer.
    fn absence_reason(&self, ip: &str) -> Option<&'static str> {
        let addresses = self.by_announcer.as_ref()?;
        Some(match addresses.get(ip) {
            None => "the announcers have not received it yet",
            Some(address) if address.candidates == 0 => {
                "no candidate nodes, because of labels, annotations, or externalTrafficPolicy Local without ready endpoints"
            }
            Some(_) => "the candidate has no votes from a majority of the members",
        })
    }
}

impl ServiceReport {
    /// Returns the report about a Service; `None` if another load balancer serves it.
    fn of(service: &Service, pools: &[AddressPool], announcements: &Announcements) -> Option<Self> {
        let condition = |kind: &str| service.status.conditions.iter().find(|found| found.kind == kind);
        let ingress = &service.status.load_balancer.ingress;
        let class = service.spec.load_balancer_class.as_deref();
        let is_ours = class.is_none_or(|class| [CLASS, EDGE_CLASS].contains(&class));
        let name = service.metadata.key().to_string();
        let assigned = condition(ASSIGNED_CONDITION);
        let pending = match assigned {
            Some(condition) if condition.status == "True" => None,
            Some(condition) => Some(condition.message.clone()),
            None if !is_ours || !ingress.is_empty() => return None,
            None => Some("not reconciled yet; does a balancer run that serves its class?".to_owned()),
        };
        let is_of_node = assigned.is_some_and(|condition| condition.reason == NODE_ADDRESSES_REASON);
        // The annotation names pools that the list lacks: those of MetalLB and of node addresses.
        let annotation = service.metadata.annotations.get(POOL_ANNOTATION);
        let recorded_pool = annotation.filter(|names| !names.contains(','));
        let addresses = ingress.iter().filter(|ingress| !ingress.ip.is_empty());
        let addresses = addresses.map(|ingress| AddressReport {
            ip: ingress.ip.clone(),
            pool: ingress
                .ip
                .parse()
                .ok()
                .and_then(|ip| pool_of(ip, pools))
                .or_else(|| recorded_pool.cloned()),
            is_of_node,
            node: announcements.node(&name, &ingress.ip),
            accepted_by: match IngressMode::of(ingress) {
                IngressMode::Vip => "proxy",
                IngressMode::Proxy => "edge",
            },
        });
        let ports = ingress.iter().flat_map(|ingress| &ingress.ports);
        let mut port_errors: Vec<String> = ports
            .filter_map(|port| {
                let error = port.error.as_ref()?;
                Some(format!("{}/{}: {error}", port.port, port.protocol.as_str()))
            })
            .collect();
        port_errors.sort();
        port_errors.dedup();
        Some(Self {
            addresses: addresses.collect(),
            service: name,
            pending,
            remarks: condition(ANNOTATIONS_CONDITION).map(|remarks| remarks.message.clone()),
            port_errors,
        })
    }
}

impl PoolReport {
    fn of(pool: AddressPool) -> Self {
        Self {
            name: pool.metadata.name,
            usage: pool.status.usage,
        }
    }
}

/// Returns the Services of the local announcer, for an unreachable API.
fn services_of_announcer(local: &Status) -> Vec<ServiceReport> {
    let announcer = local.announcer.iter();
    let mut services: BTreeMap<&str, ServiceReport> = BTreeMap::new();
    for address in announcer.flat_map(|announcer| &announcer.status.addresses) {
        for name in &address.services {
            let report = services.entry(name.as_str()).or_insert_with(|| ServiceReport {
                service: name.clone(),
                ..ServiceReport::default()
            });
            report.addresses.push(AddressReport {
                ip: address.ip.to_string(),
                node: address.node.as_deref().map(str::to_owned),
                ..AddressReport::default()
            });
        }
    }
    services.into_values().collect()
}

/// Returns the pool of an address: the first one by priority.
fn pool_of(ip: IpAddr, pools: &[AddressPool]) -> Option<String> {
    let has_address = |pool: &&AddressPool| {
        let blocks = pool.spec.addresses.iter();
        let mut blocks = blocks.filter_map(|text| text.parse::<AddressBlock>().ok());
        blocks.any(|block| (block.first()..=block.last()).contains(&ip))
    };
    pools
        .iter()
        .find(has_address)
        .map(|pool| pool.metadata.name.clone())
}

/// Returns the seconds since a time in RFC 3339; `None` if it is malformed.
fn seconds_since(time: &str, now: Timestamp) -> Option<u64> {
    let time: Timestamp = time.parse().ok()?;
    Some(u64::try_from(now.duration_since(time).as_secs()).unwrap_or_default())
}
