//! One Service at a time: what holds, what should, and the step between them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api::object::{IngressPort, Labels, ObjectKey, Service};
use api::selector::LabelSelector;
use ipam::pools::Request;

use super::remarks::Remarks;
use super::{
    ANNOUNCED_CONDITION, Assigned, CLASS_PREFIX, CONDITION, CONDITIONS, Core, IngressMode, REMARKS_CONDITION,
    StatusChange, Step, Told, Work, addresses_of, has_finalizer, holder_of,
};
use crate::annotations::{self, EDGE_CLASS};
use crate::pools::eligible;
use crate::wish::Wish;

/// What becomes of a Service.
enum Verdict {
    /// It is not ours and never was.
    LeaveAlone,
    /// It has or wants a load balancer no more.
    CleanUp,
    /// It wants one, and gets this; what there is to say about its annotations.
    Balance(Assigned, Remarks),
}

impl Core {
    /// What is to be written about a Service, if anything; and what else is to be looked at, because the Service
    /// released or took addresses.
    pub fn look_at(&mut self, key: &ObjectKey) -> (Option<Step>, Vec<Work>) {
        let Some(service) = self.services.get(key).cloned() else {
            return (None, Vec::new());
        };
        let before = self.book.of(&holder_of(key)).to_vec();
        let verdict = self.verdict(key, &service);
        let has_new_hosts = self.hosts_changed.remove(key);
        let changed = self.changed.remove(key);
        let (step, mut work) = match verdict {
            Verdict::LeaveAlone => {
                self.waiting.remove(key);
                (None, self.released(key))
            }
            Verdict::CleanUp => {
                self.waiting.remove(key);
                // The addresses stay in the book until the Service is seen without them.
                let mut step = clean_up(&service);
                if let (Some(step), Some(changed)) = (&mut step, changed) {
                    step.before.splice(..0, changed);
                }
                let work = if step.is_none() {
                    self.released(key)
                } else {
                    Vec::new()
                };
                (step, work)
            }
            Verdict::Balance(assigned, remarks) => {
                if assigned.why_not.is_empty() {
                    self.waiting.remove(key);
                } else {
                    self.waiting.insert(key.clone());
                }
                let step = balance(&service, assigned, remarks);
                let step = with_changes(&service, step, changed);
                (self.with_hosts(step, has_new_hosts), Vec::new())
            }
        };
        if self.book.of(&holder_of(key)) != before {
            work.extend(self.all_pools());
            if !before.is_empty() {
                let others = self.waiting.iter().filter(|other| *other != key);
                work.extend(others.cloned().map(Work::Service));
            }
        }
        (step, work)
    }

    fn verdict(&mut self, key: &ObjectKey, service: &Service) -> Verdict {
        let class = service.spec.load_balancer_class.as_deref();
        let wants_one = service.spec.kind == "LoadBalancer" && service.metadata.deletion_timestamp.is_none();
        if wants_one && self.serves(class) {
            let (assigned, remarks) = self.assign(key, service);
            return Verdict::Balance(assigned, remarks);
        }
        if wants_one && let Some(class) = class.filter(|class| class.starts_with(CLASS_PREFIX)) {
            let instead = match class {
                EDGE_CLASS => "no node runs the edge, which `portolan balancer --edge` does".to_owned(),
                _ => format!("use {}, {EDGE_CLASS}, or none", super::CLASS),
            };
            let assigned = Assigned {
                why_not: format!("class {class} is not served here: {instead}"),
                ..Assigned::default()
            };
            return Verdict::Balance(assigned, Remarks::default());
        }
        // A Service that became one of another type has lost its class with the type.
        if self.is_ours(service) {
            Verdict::CleanUp
        } else {
            Verdict::LeaveAlone
        }
    }

    fn assign(&mut self, key: &ObjectKey, service: &Service) -> (Assigned, Remarks) {
        let mut reading = annotations::read(service);
        let mode = match reading.edge {
            Some(_) if self.options.has_edges => IngressMode::Proxy,
            _ => IngressMode::Vip,
        };
        let hostname = reading.hostname.take();
        let nodes = std::mem::take(&mut reading.nodes);
        let withheld = reading.restrictions.withholds(self.options.has_edges);
        // Why an address is withheld says it already.
        let is_edge_missing = reading.edge.is_some() && !self.options.has_edges && withheld.is_none();
        let remarks = Remarks::of(reading, is_edge_missing);
        let holder = holder_of(key);
        let outcome = withheld
            .map_or(Ok(()), Err)
            .and_then(|()| Wish::of(service).map_err(|error| error.to_string()))
            .and_then(|wish| {
                let no_labels = Labels::new();
                let namespace = self.namespaces.get(&*key.namespace).unwrap_or(&no_labels);
                let eligible = eligible(&self.pools, service, wish.is_internal, namespace);
                let request = Request {
                    holder: &holder,
                    families: &wish.families,
                    need: wish.need,
                    addresses: &wish.addresses,
                    pool: wish.pool.as_deref(),
                    eligible: &eligible,
                    sharing: wish.sharing.clone(),
                };
                self.book.assign(&request).map_err(|error| error.to_string())
            });
        let (addresses, why_not) = match outcome {
            Ok(addresses) => (addresses, String::new()),
            Err(why_not) => {
                self.book.release(&holder);
                (Vec::new(), why_not)
            }
        };
        let assigned = Assigned {
            unannounced: self.unannounced(&addresses, &nodes).unwrap_or_default(),
            ports: match mode {
                IngressMode::Proxy => self.port_states(key, service, &addresses, &nodes),
                IngressMode::Vip => BTreeMap::new(),
            },
            addresses,
            mode,
            hostname,
            why_not,
            remarks: remarks.text(),
        };
        (assigned, remarks)
    }

    /// The states of ports, as edges report them, at each address where one has a fault: those of all ports (as the API has it).
    /// The report of a node counts for addresses that the node may announce.
    fn port_states(
        &self,
        key: &ObjectKey,
        service: &Service,
        addresses: &[IpAddr],
        by_annotations: &[LabelSelector],
    ) -> BTreeMap<IpAddr, Vec<IngressPort>> {
        if !self.reports.are_known() {
            let ingress = service.status.load_balancer.ingress.iter();
            let told = ingress.filter(|ingress| !ingress.ports.is_empty());
            let told = told.filter_map(|told| Some((told.ip.parse().ok()?, told.ports.clone())));
            return told.filter(|(address, _)| addresses.contains(address)).collect();
        }
        let at_address = |address: IpAddr| {
            let may_announce = |node: &str| {
                let labels = self.hosts.get(node);
                labels.is_some_and(|labels| self.may_announce(address, labels, by_annotations))
            };
            let states: Vec<IngressPort> = service
                .spec
                .ports
                .iter()
                .map(|port| {
                    let number = (port.port, port.protocol);
                    let error = self.reports.error(key, address, number, may_announce);
                    IngressPort {
                        port: port.port,
                        protocol: port.protocol,
                        error: error.map(str::to_owned),
                    }
                })
                .collect();
            states
                .iter()
                .any(|state| state.error.is_some())
                .then_some((address, states))
        };
        addresses.iter().copied().filter_map(at_address).collect()
    }

    /// Returns true if pools and annotations allow a node with these labels to announce an address.
    fn may_announce(&self, address: IpAddr, labels: &Labels, by_annotations: &[LabelSelector]) -> bool {
        let mut named = self
            .pools
            .values()
            .map(|pool| &pool.placement)
            .filter(|placement| placement.names_nodes() && placement.has(address));
        named.all(|placement| placement.is_for_node(labels))
            && by_annotations
                .iter()
                .all(|selector| selector.matches(|key| labels.get(key).map(String::as_str)))
    }

    /// Adds what is to be said about the nodes (CCM-06, CCM-07).
    fn with_hosts(&self, step: Option<Step>, has_new_hosts: bool) -> Option<Step> {
        if self.hosts.is_empty() && (has_new_hosts || step.as_ref().is_some_and(|step| step.adds_finalizer)) {
            let mut step = step.unwrap_or_default();
            step.after
                .push(unavailable("There are no available nodes for LoadBalancer"));
            return Some(step);
        }
        // Where more is told anyway, the nodes are part of it.
        let is_silent = |step: &Step| step.before.is_empty() && step.after.is_empty();
        if has_new_hosts && step.as_ref().is_none_or(is_silent) {
            let mut step = step.unwrap_or_default();
            step.after.push(normal(
                "UpdatedLoadBalancer",
                "Updated load balancer with new hosts",
            ));
            return Some(step);
        }
        step
    }

    /// Why no node may announce one of the addresses; nothing if for each there is one. `by_annotations` is what
    /// annotations say of nodes (LBC-13).
    fn unannounced(&self, addresses: &[IpAddr], by_annotations: &[LabelSelector]) -> Option<String> {
        addresses.iter().find_map(|address| {
            let pools = self.pools.iter().map(|(name, pool)| (name, &pool.placement));
            let named: Vec<_> = pools
                .filter(|(_, placement)| placement.names_nodes() && placement.has(*address))
                .collect();
            let are_all = named.is_empty() && by_annotations.is_empty();
            let is_able = |labels: &Labels| self.may_announce(*address, labels, by_annotations);
            if are_all || self.hosts.values().any(is_able) {
                return None;
            }
            let pools = named
                .iter()
                .map(|(name, _)| format!("nodeSelectors of AddressPool {name:?}"));
            let annotations =
                (!by_annotations.is_empty()).then(|| "what annotations say of nodes".to_owned());
            let wanted: Vec<String> = pools.chain(annotations).collect();
            Some(format!(
                "{address} is announced by no node: none that takes traffic matches {}",
                wanted.join(" and ")
            ))
        })
    }
}

/// The message of a condition of ours; "" without it.
pub(super) fn said_by<'s>(service: &'s Service, condition: &str) -> &'s str {
    let mut conditions = service.status.conditions.iter();
    let said = conditions.find(|said| said.kind == condition);
    said.map_or("", |said| &said.message)
}

/// The step to a balanced Service (CCM-02, CCM-10).
fn balance(service: &Service, assigned: Assigned, remarks: Remarks) -> Option<Step> {
    let adds_finalizer = !has_finalizer(service) && !assigned.addresses.is_empty();
    let said = service.status.conditions.iter().find(|c| c.kind == CONDITION);
    let wanted = if assigned.why_not.is_empty() {
        "True"
    } else {
        "False"
    };
    let is_said = said.is_some_and(|said| {
        said.status == wanted && (assigned.why_not.is_empty() || said.message == assigned.why_not)
    });
    let is_remarked = said_by(service, REMARKS_CONDITION) == assigned.remarks;
    let is_assigned = !adds_finalizer && is_said && is_told(service, &assigned);
    let is_announcing_said = said_by(service, ANNOUNCED_CONDITION) == assigned.unannounced;
    let are_ports_told = are_ports_told(service, &assigned);
    if is_assigned && is_remarked && is_announcing_said && are_ports_told {
        return None;
    }
    let mut step = Step {
        adds_finalizer,
        status: Some(StatusChange::Say(assigned.clone())),
        ..Step::default()
    };
    if !is_remarked {
        step.after.extend(remarks.told());
    }
    if !is_announcing_said && !assigned.unannounced.is_empty() {
        step.after.push(unavailable(&assigned.unannounced));
    }
    if is_assigned {
        return Some(step);
    }
    if assigned.why_not.is_empty() {
        step.before
            .push(normal("EnsuringLoadBalancer", "Ensuring load balancer"));
        step.after
            .push(normal("EnsuredLoadBalancer", "Ensured load balancer"));
    } else {
        step.after.push(Told {
            is_warning: true,
            reason: "SyncLoadBalancerFailed",
            message: format!(
                "Error syncing load balancer: failed to ensure load balancer: {}",
                assigned.why_not
            ),
        });
    }
    Some(step)
}

/// The step to a Service without a load balancer (CCM-03).
fn clean_up(service: &Service) -> Option<Step> {
    let is_held = has_finalizer(service);
    let is_told = !service.status.load_balancer.ingress.is_empty()
        || service
            .status
            .conditions
            .iter()
            .any(|c| CONDITIONS.contains(&c.kind.as_str()));
    let is_going = service.metadata.deletion_timestamp.is_some();
    if !is_held && (is_going || !is_told) {
        return None;
    }
    Some(Step {
        before: vec![normal("DeletingLoadBalancer", "Deleting load balancer")],
        adds_finalizer: false,
        // What is about to go needs no other status.
        status: (is_told && !is_going).then_some(StatusChange::Clear),
        removes_finalizer: is_held,
        after: vec![normal("DeletedLoadBalancer", "Deleted load balancer")],
    })
}

/// Returns true if the status contains the present states of ports.
fn are_ports_told(service: &Service, assigned: &Assigned) -> bool {
    service.status.load_balancer.ingress.iter().all(|ingress| {
        let ip = ingress.ip.parse::<IpAddr>().ok();
        let states = ip.and_then(|ip| assigned.ports.get(&ip));
        states.map_or(&[][..], Vec::as_slice) == ingress.ports.as_slice()
    })
}

/// Returns true if the status contains the assigned addresses, apart from the states of ports.
fn is_told(service: &Service, assigned: &Assigned) -> bool {
    let ingress = &service.status.load_balancer.ingress;
    let hostname = assigned.hostname.as_deref().unwrap_or_default();
    let are_well = ingress.iter().all(|ingress| {
        ingress.ip.parse::<IpAddr>().is_ok()
            && ingress.hostname == hostname
            && IngressMode::of(ingress) == assigned.mode
    });
    are_well && addresses_of(service) == assigned.addresses
}

/// Adds what is to be said about changes that were asked for (CCM-08). What they lead to is in force already or about to
/// be: nothing else has to be told of them.
fn with_changes(service: &Service, step: Option<Step>, changed: Option<Vec<Told>>) -> Option<Step> {
    let Some(changed) = changed else { return step };
    let mut step = step.unwrap_or_default();
    let is_told = |told: &[Told], reason| told.iter().any(|told| told.reason == reason);
    let is_failure = is_told(&step.after, "SyncLoadBalancerFailed");
    if has_finalizer(service) && !is_failure && !is_told(&step.before, "EnsuringLoadBalancer") {
        step.before
            .push(normal("EnsuringLoadBalancer", "Ensuring load balancer"));
        step.after
            .push(normal("EnsuredLoadBalancer", "Ensured load balancer"));
    }
    step.before.splice(..0, changed);
    let is_empty = step == Step::default();
    (!is_empty).then_some(step)
}

fn unavailable(message: &str) -> Told {
    Told {
        is_warning: true,
        reason: "UnAvailableLoadBalancer",
        message: message.to_owned(),
    }
}

pub(super) fn normal(reason: &'static str, message: impl Into<String>) -> Told {
    Told {
        is_warning: false,
        reason,
        message: message.into(),
    }
}
