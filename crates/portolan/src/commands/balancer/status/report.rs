//! What is known of load balancing at a moment, put together, and what of it is wrong. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use announcer::status::{AddressStatus, MemberStatus};
use api::address_pool::AddressBlock;
use api::object::{AddressPool, AddressPoolUsage, Lease, Service};
use balancer::annotations::EDGE_CLASS;
use balancer::assigner::{ANNOTATIONS_CONDITION, ASSIGNED_CONDITION, CLASS, IngressMode};
use edge::status::{BackendState, PortStatus};
use jiff::Timestamp;
use serde::Serialize;

use super::Page;
use super::asked::{Answer, Asked};
use crate::commands::status::age;

/// Seconds without a word after which an announcer counts as standing still: it speaks every second.
const SILENT_SECONDS: u64 = 10;

/// All of it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// What is wrong, for people; empty if all is well.
    pub wrong: Vec<String>,
    /// The Node of this machine, if load balancing runs on it.
    pub node: Option<String>,
    /// Who assigns addresses.
    pub assigner: Option<String>,
    /// Whether enough members hear this node; `None` if it does not announce.
    pub is_quorate: Option<bool>,
    /// Families of addresses whose connections do not go on when they move as planned, each with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cannot_lead: Vec<String>,
    /// The members, as seen from this node.
    pub members: Vec<MemberStatus>,
    /// The Services, by name.
    pub services: Vec<ServiceReport>,
    /// The pools, those that are used first first.
    pub pools: Vec<PoolReport>,
    /// The ports that the edge of this machine serves.
    pub edge: Vec<PortStatus>,
}

/// A Service of type LoadBalancer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceReport {
    /// `namespace/name`.
    pub service: String,
    /// Its addresses.
    pub addresses: Vec<AddressReport>,
    /// Why it has none, or not all that it asks for.
    pub pending: Option<String>,
    /// What its annotations ask for and is not in force.
    pub remarks: Option<String>,
    /// What the edge says of its ports, as `443/TCP: portolan.dev/NoCertificate`.
    pub port_errors: Vec<String>,
}

/// An address of a Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressReport {
    /// The address.
    pub ip: String,
    /// The pool that it is of.
    pub pool: Option<String>,
    /// The node that announces it.
    pub node: Option<String>,
    /// Who takes its connections: `edge` or `proxy`.
    pub taken_by: &'static str,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolReport {
    /// Name.
    pub name: String,
    /// How much of it is in use, a family each.
    pub usage: Vec<AddressPoolUsage>,
}

impl Report {
    /// Puts together what the process of this machine says, if it was asked, and what the API says.
    pub fn new(page: Option<Answer<Page>>, asked: Asked, now: Timestamp) -> Self {
        let mut report = Self::default();
        let page = match page {
            Some(Ok(page)) => Some(page),
            Some(Err(why)) => {
                report.wrong.push(why);
                None
            }
            None => None,
        };
        let pools = report.heard("the pools", asked.pools);
        let mut pools = pools.unwrap_or_default();
        pools.sort_by_key(|pool| (Reverse(pool.spec.priority), pool.metadata.name.clone()));
        let lease = report.heard("who assigns addresses", asked.assigner).flatten();
        report.assigner(page.as_ref(), lease.as_ref(), now);
        if let Some(page) = &page {
            report.announcer(page);
        }
        match report.heard("the Services", asked.services) {
            Some(services) => {
                let announced = Announced::new(page.as_ref(), asked.taken);
                report.services(&services, &pools, &announced);
            }
            None => report.services = page.iter().flat_map(known_to_announcer).collect(),
        }
        report.pools = pools.into_iter().map(PoolReport::of).collect();
        if let Some(page) = page {
            report.edge = page.edge.unwrap_or_default();
            report.node = Some(page.node);
        }
        report.faults_of_ports();
        report
    }

    /// The answer, or nothing, which is wrong.
    fn heard<T>(&mut self, what: &str, answer: Answer<T>) -> Option<T> {
        answer
            .inspect_err(|why| self.wrong.push(format!("the API does not say {what}: {why}")))
            .ok()
    }

    fn assigner(&mut self, page: Option<&Page>, lease: Option<&Lease>, now: Timestamp) {
        let assigns_here = page.is_some_and(|page| page.assigner.is_some());
        let held = lease.and_then(|lease| Some((lease.spec.holder_identity.as_deref()?, lease)));
        let held = held.filter(|(holder, _)| !holder.is_empty());
        self.assigner = match held {
            Some((holder, lease)) => {
                let renewed = lease.spec.renew_time.as_deref().and_then(|text| since(text, now));
                let lasts = lease.spec.lease_duration_seconds.unwrap_or_default();
                let is_over = renewed.is_none_or(|ago| i64::try_from(ago).unwrap_or(i64::MAX) > lasts);
                match (is_over, assigns_here) {
                    (false, _) => Some(holder.to_owned()),
                    // Alone on its data, it holds no election.
                    (true, true) => Some("this process".to_owned()),
                    (true, false) => None,
                }
            }
            None => assigns_here.then(|| "this process".to_owned()),
        };
        if self.assigner.is_none() && held.is_some() {
            self.wrong.push(
                "nobody assigns addresses: the holder of the Lease kube-system/portolan-balancer does not renew it; is \
                 `portolan balancer` or `portolan up` running?"
                    .to_owned(),
            );
        }
    }

    fn announcer(&mut self, page: &Page) {
        let Some(announcer) = &page.announcer else { return };
        let status = &announcer.status;
        self.is_quorate = Some(status.is_quorate);
        self.members.clone_from(&status.members);
        self.cannot_lead.clone_from(&status.forwarding_unavailable);
        match announcer.said_seconds_ago {
            None => self.wrong.push(
                "the announcer of this machine does not work yet: it waits for its Node, or for its UDP port".to_owned(),
            ),
            Some(ago) if ago > SILENT_SECONDS => {
                self.wrong
                    .push(format!("the announcer of this machine stands still since {}", age(ago)));
            }
            Some(_) if !status.is_quorate => self.wrong.push(
                "too few members hear this machine's announcer for it to have addresses; are UDP probes let through?"
                    .to_owned(),
            ),
            Some(_) => {}
        }
        for member in status.members.iter().filter(|member| !member.is_heard) {
            let silent = match member.heard_milliseconds_ago {
                Some(ago) => format!("is silent for {}", age(ago / 1_000)),
                None => "was never heard".to_owned(),
            };
            self.wrong.push(format!(
                "{} {silent}; if its machine will not come back, delete its Node",
                member.node
            ));
        }
        for address in &status.addresses {
            if let Some(reason) = &address.withheld {
                let services = address.services.join(", ");
                self.wrong
                    .push(format!("{} of {services} is withheld: {reason}", address.ip));
            }
        }
        for address in status.addresses.iter().filter(|address| address.waits_for_edge) {
            self.wrong.push(format!(
                "{} of {} is this machine's, and not announced: its edge does not serve it",
                address.ip,
                address.services.join(", ")
            ));
        }
    }

    fn services(&mut self, services: &[Service], pools: &[AddressPool], announced: &Announced) {
        for service in services {
            let Some(report) = ServiceReport::of(service, pools, announced) else {
                continue;
            };
            let name = &report.service;
            if let Some(why) = &report.pending {
                self.wrong.push(format!("{name} waits for its address: {why}"));
            }
            for address in report.addresses.iter().filter(|address| address.node.is_none()) {
                if let Some(why) = announced.why_by_nobody(&address.ip) {
                    self.wrong
                        .push(format!("{} of {name} is announced by nobody: {why}", address.ip));
                }
            }
            for error in &report.port_errors {
                self.wrong.push(format!("{name} port {error}"));
            }
            self.services.push(report);
        }
        self.services.sort_by(|a, b| a.service.cmp(&b.service));
    }

    fn faults_of_ports(&mut self) {
        for port in &self.edge {
            let name = format!(
                "{}/{} port {}/{}",
                port.namespace, port.service, port.port, port.protocol
            );
            for fault in &port.faults {
                self.wrong.push(format!("{name} at the edge: {fault}"));
            }
            let is_used = |state| matches!(state, BackendState::Healthy | BackendState::Terminating);
            if !port.backends.iter().any(|backend| is_used(backend.state)) {
                let why = match port.backends.len() {
                    0 => "it has no endpoint".to_owned(),
                    count => format!("none of its {count} backends works"),
                };
                self.wrong.push(format!("{name} at the edge: {why}"));
            }
        }
    }
}

/// Who announces which address.
struct Announced {
    by_announcer: Option<BTreeMap<String, AddressStatus>>,
    /// By Services.
    by_events: BTreeMap<String, String>,
}

impl Announced {
    fn new(page: Option<&Page>, by_events: BTreeMap<String, String>) -> Self {
        let announcer = page.and_then(|page| page.announcer.as_ref());
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
            Some(known) => known.get(ip)?.node.as_deref().map(str::to_owned),
            None => self.by_events.get(service).cloned(),
        }
    }

    /// Why nobody announces an address; `None` if that is not known here.
    fn why_by_nobody(&self, ip: &str) -> Option<&'static str> {
        let known = self.by_announcer.as_ref()?;
        Some(match known.get(ip) {
            None => "no announcer knows it yet",
            Some(address) if address.candidates == 0 => {
                "no node may, by labels, annotations, or externalTrafficPolicy Local without ready endpoints"
            }
            Some(_) => "the node that should does not have the votes of enough members",
        })
    }
}

impl ServiceReport {
    /// Of a Service; nothing if another balancer serves it.
    fn of(service: &Service, pools: &[AddressPool], announced: &Announced) -> Option<Self> {
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
            None => Some("no balancer has looked at it yet; does one run that serves its class?".to_owned()),
        };
        let addresses = ingress.iter().filter(|ingress| !ingress.ip.is_empty());
        let addresses = addresses.map(|ingress| AddressReport {
            ip: ingress.ip.clone(),
            pool: ingress.ip.parse().ok().and_then(|ip| pool_of(ip, pools)),
            node: announced.node(&name, &ingress.ip),
            taken_by: match IngressMode::of(ingress) {
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

/// What can be said of Services where the API cannot be asked.
fn known_to_announcer(page: &Page) -> Vec<ServiceReport> {
    let announcer = page.announcer.iter();
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

/// The pool that an address is of: of several that have it, the one that is used first.
fn pool_of(ip: IpAddr, pools: &[AddressPool]) -> Option<String> {
    let has_it = |pool: &&AddressPool| {
        let blocks = pool.spec.addresses.iter();
        let mut blocks = blocks.filter_map(|text| text.parse::<AddressBlock>().ok());
        blocks.any(|block| (block.first()..=block.last()).contains(&ip))
    };
    pools.iter().find(has_it).map(|pool| pool.metadata.name.clone())
}

/// Seconds since a moment that the API tells.
fn since(text: &str, now: Timestamp) -> Option<u64> {
    let moment: Timestamp = text.parse().ok()?;
    Some(u64::try_from(now.duration_since(moment).as_secs()).unwrap_or_default())
}
