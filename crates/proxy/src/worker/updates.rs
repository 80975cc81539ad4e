//! Updates, and what each does to the plan.

use std::net::IpAddr;
use std::sync::mpsc::SyncSender;

use api::object::{EndpointSlice, Node, ObjectKey, Service, ServiceCidr};
use client::Event;
use ipnet::IpNet;
use jiff::Timestamp;
use netlink::nftables::ExternalChange;
use plan::Family;

use super::Worker;
use crate::config::{Config, NodePortSelection};
use crate::node;
use crate::traffic::{Traffic, busiest};

/// Endpoint changes whose time to effect is measured in one step; a sample is enough.
const TRIGGERS_MAX: usize = 1_024;
/// What others touched, remembered one by one until it is mended; beyond that, all is looked at.
const TAMPERED_MAX: usize = 1_024;
/// When the slice's endpoints last changed, as the endpoint controllers write it down (MET-06).
const TRIGGER_TIME_ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Something that the plan may depend on.
#[derive(Debug)]
pub(crate) enum Update {
    Service(Box<Event<Service>>),
    Slice(Event<EndpointSlice>),
    Node(Box<Event<Node>>),
    ServiceCidr(Event<ServiceCidr>),
    /// The API has no such kind.
    NoServiceCidrs,
    /// All addresses of this machine.
    Addresses(Vec<IpAddr>),
    /// Another configuration.
    Config(Box<Config>),
    /// Others changed what is in force.
    Tampered(Vec<ExternalChange>),
    /// Somebody asks for the busiest Services.
    Traffic(TrafficQuestion),
}

/// A question for the busiest Services.
#[derive(Debug)]
pub(crate) struct TrafficQuestion {
    /// How many are asked for at most.
    pub(crate) services_max: usize,
    /// Where they are to be told.
    pub(crate) answer: SyncSender<Vec<Traffic>>,
}

impl<D> Worker<D> {
    /// Puts an update into the plan.
    pub(super) fn take(&mut self, update: Update) {
        match update {
            Update::Service(event) => self.take_service(*event),
            Update::Slice(event) => self.take_slice(event),
            Update::Node(event) => self.take_node(*event),
            Update::ServiceCidr(event) => self.take_service_cidr(event),
            Update::NoServiceCidrs => self.synced.service_cidrs = true,
            Update::Addresses(own) => {
                self.own_addresses = own;
                self.choose_addresses();
            }
            Update::Config(config) => self.take_config(*config),
            Update::Tampered(touched) => self.take_tampering(touched),
            Update::Traffic(question) => self.tell_traffic(&question),
        }
    }

    fn tell_traffic(&mut self, question: &TrafficQuestion) {
        let Some(conntrack) = self.conntrack.as_mut() else {
            return;
        };
        match busiest(conntrack, &self.plan, question.services_max) {
            // Who asked may not wait any more.
            Ok(traffic) => drop(question.answer.try_send(traffic)),
            Err(error) => tracing::debug!(%error, "the busiest Services are not known"),
        }
    }

    fn take_service(&mut self, event: Event<Service>) {
        match event {
            Event::Applied(service) => self.plan.apply_service(&service),
            Event::Deleted(key) => self.plan.remove_service(&key),
            Event::Synced => return self.synced.services = true,
            Event::Malformed { key, error } => return unreadable("Service", &key, &error),
        }
        self.board.metrics.update(|values| {
            values.sync_proxy_rules_service_changes_total += 1;
            values.sync_proxy_rules_service_changes_pending += 1;
        });
    }

    fn take_slice(&mut self, event: Event<EndpointSlice>) {
        match event {
            Event::Applied(slice) => {
                self.note_trigger(&slice);
                self.plan.apply_slice(&slice);
            }
            Event::Deleted(key) => self.plan.remove_slice(&key),
            Event::Synced => return self.synced.slices = true,
            Event::Malformed { key, error } => return unreadable("EndpointSlice", &key, &error),
        }
        self.board.metrics.update(|values| {
            values.sync_proxy_rules_endpoint_changes_total += 1;
            values.sync_proxy_rules_endpoint_changes_pending += 1;
        });
    }

    fn note_trigger(&mut self, slice: &EndpointSlice) {
        let time = slice.metadata.annotations.get(TRIGGER_TIME_ANNOTATION);
        if let Some(time) = time.and_then(|time| time.parse::<Timestamp>().ok())
            && time > self.started
            && self.triggers.len() < TRIGGERS_MAX
        {
            self.triggers.push(time);
        }
    }

    fn take_node(&mut self, event: Event<Node>) {
        match event {
            Event::Applied(node) => {
                self.set_node(Some(&node));
                self.warn_of_closed_node_ports();
            }
            Event::Deleted(_) => {
                // What was known of it stays in force: the machine is still there.
                self.board.health.set_node_eligible(false);
            }
            Event::Synced => {
                self.synced.node = true;
                if self.node.is_none() {
                    self.warn_of_closed_node_ports();
                }
            }
            Event::Malformed { key, error } => unreadable("Node", &key, &error),
        }
    }

    fn warn_of_closed_node_ports(&self) {
        let is_primary = self.config.node_port_addresses == NodePortSelection::Primary;
        if is_primary && self.node_ips.is_empty() {
            tracing::warn!(
                node = %self.config.node_name,
                "node ports closed until the Node has an InternalIP or ExternalIP; name other addresses in nodePortAddresses"
            );
        }
    }

    pub(super) fn set_node(&mut self, node: Option<&Node>) {
        self.node = node.map(|node| Box::new(node.clone()));
        if let Some(node) = node {
            self.board.health.set_node_eligible(node::is_eligible(node));
        }
        let facts = node::facts(node, self.config.bind_address);
        let pods = node::pods(&self.config.pods, node);
        if self.node_ips != facts.ips
            && let Some(ip) = node::without_pods(&facts.ips, &pods)
        {
            // Upstream ends for this (KPC-15); everything else can be in force.
            tracing::error!(%ip, "no range of Pods is of the family of the node's address: who is no Pod is not known");
        }
        self.node_ips.clone_from(&facts.ips);
        self.plan.set_node(facts);
        self.plan.set_pods(pods);
        self.choose_addresses();
    }

    fn take_tampering(&mut self, touched: Vec<ExternalChange>) {
        if self.tampered.len() + touched.len() > TAMPERED_MAX {
            self.tampered = vec![ExternalChange::Everything];
        } else {
            self.tampered.extend(touched);
        }
    }

    /// Brings in what may change while the process runs.
    fn take_config(&mut self, config: Config) {
        let fixed = self.config.fixed_differences(&config);
        if !fixed.is_empty() {
            tracing::warn!(fields = fixed.join(", "), "comes into force with the next start");
        }
        tracing::info!("another configuration is in force");
        self.config.pods = config.pods;
        self.config.node_port_addresses = config.node_port_addresses;
        self.config.bind_address = config.bind_address;
        self.config.masquerade_all = config.masquerade_all;
        self.config.localhost_node_ports = config.localhost_node_ports;
        self.config.sync_period = config.sync_period;
        self.board.health.set_sync_period(self.config.sync_period);
        self.plan.set_masquerade_all(self.config.masquerade_all);
        let node = self.node.take();
        self.set_node(node.as_deref());
    }

    fn choose_addresses(&mut self) {
        let node_ports = node::node_ports(&self.config.node_port_addresses, &self.node_ips);
        self.plan
            .set_node_addresses(self.own_addresses.clone(), node_ports);
        let settings = self.plan.settings();
        let chosen = [Family::V4, Family::V6].map(|family| settings.node_port_ips(family));
        let chosen = chosen
            .into_iter()
            .flatten()
            .reduce(|all, more| [all, more].concat());
        let on_localhost = node::localhost_node_ports(&self.config, settings);
        self.board.localhost.reach_by(on_localhost);
        self.board.checks.listen_on(chosen);
    }

    fn take_service_cidr(&mut self, event: Event<ServiceCidr>) {
        match event {
            Event::Applied(cidr) => {
                let key = cidr.metadata.key();
                let nets = cidr.spec.cidrs.iter().filter_map(|text| {
                    text.parse::<IpNet>()
                        .map_err(|error| unreadable("ServiceCIDR", &key, &error.to_string()))
                        .ok()
                });
                let nets = nets.collect();
                self.service_cidrs.insert(key, nets);
            }
            Event::Deleted(key) => {
                self.service_cidrs.remove(&key);
            }
            Event::Synced => self.synced.service_cidrs = true,
            Event::Malformed { key, error } => unreadable("ServiceCIDR", &key, &error),
        }
        let mut all: Vec<IpNet> = self.service_cidrs.values().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        self.plan.set_service_cidrs(all);
    }
}

fn unreadable(kind: &str, key: &ObjectKey, error: &str) {
    tracing::warn!(kind, %key, error, "an object cannot be read; what was known of it stays");
}
