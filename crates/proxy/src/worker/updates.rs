//! Updates, and their effect on the plan.

use std::net::IpAddr;
use std::sync::mpsc::SyncSender;

use api::object::{EndpointSlice, Node, ObjectKey, Service, ServiceCidr};
use client::Event;
use dataplane::{Dataplane, ServiceEndpoints};
use ipnet::IpNet;
use jiff::Timestamp;
use netlink::nftables::ExternalChange;
use plan::Family;

use super::Worker;
use crate::config::{Config, NodePortSelection};
use crate::node;
use crate::plan_reader::PlanQuery;
use crate::reports::traffic::{Traffic, busiest};

/// Maximum number of endpoint changes per sync whose latency is measured. The others are not measured.
const TRIGGERS_MAX: usize = 1_024;
/// Maximum number of external changes that are repaired individually; above it, all elements are compared.
const EXTERNAL_CHANGES_MAX: usize = 1_024;
/// Annotation with the time of the last endpoint change, which endpoint controllers set (MET-06).
const TRIGGER_TIME_ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// An input of the plan.
#[derive(Debug)]
pub(crate) enum Update {
    Service(Box<Event<Service>>),
    Slice(Event<EndpointSlice>),
    Node(Box<Event<Node>>),
    /// Any Node, for two-tier forwarding.
    ClusterNode(Box<Event<Node>>),
    ServiceCidr(Event<ServiceCidr>),
    /// Rules need not wait for ServiceCIDRs: the server lacks them, refuses them, or did not send them in time.
    ServiceCidrsNotAwaited,
    /// All addresses of this node.
    Addresses(Vec<IpAddr>),
    /// A new configuration.
    Config(Box<Config>),
    /// External changes of the rules.
    ExternalChanges(Vec<ExternalChange>),
    /// The address of a server became free: the process that listened there, such as kube-proxy, has exited.
    AddressReleased,
    /// Endpoints that left and do not answer, because their node has failed.
    EndpointsLost(ServiceEndpoints),
    /// Query for the busiest Services.
    Traffic(TrafficQuery),
    /// Read of the plan.
    Plan(PlanQuery),
}

/// Query for the busiest Services.
#[derive(Debug)]
pub(crate) struct TrafficQuery {
    /// Maximum number of Services in the response.
    pub(crate) services_max: usize,
    /// Channel for the response.
    pub(crate) response: SyncSender<Vec<Traffic>>,
}

impl<D: Dataplane> Worker<D> {
    /// Applies an update to the plan.
    pub(super) fn apply_update(&mut self, update: Update) {
        match update {
            Update::Service(event) => self.apply_service(*event),
            Update::Slice(event) => self.apply_slice(event),
            Update::Node(event) => self.apply_node(*event),
            Update::ClusterNode(event) => self.two_tier_state.apply_node(*event),
            Update::ServiceCidr(event) => self.apply_service_cidr(event),
            Update::ServiceCidrsNotAwaited => self.synced.service_cidrs = true,
            Update::Addresses(own) => {
                self.own_addresses = own;
                self.choose_addresses();
            }
            Update::Config(config) => self.apply_config(*config),
            Update::ExternalChanges(changes) => self.queue_external_changes(changes),
            Update::AddressReleased => self.remove_leftovers_of_exited(),
            Update::EndpointsLost(endpoints) => self.reset_lost(&endpoints),
            Update::Traffic(query) => self.respond_traffic(&query),
            Update::Plan(query) => query.run(&self.plan),
        }
    }

    fn respond_traffic(&mut self, query: &TrafficQuery) {
        let Some(conntrack) = self.conntrack.as_mut() else {
            return;
        };
        let at_connect = self.dataplane.connections_of_services();
        match busiest(conntrack, &self.plan, &at_connect, query.services_max) {
            // The receiver may be dropped after its timeout.
            Ok(traffic) => drop(query.response.try_send(traffic)),
            Err(error) => tracing::debug!(%error, "traffic not read"),
        }
    }

    fn apply_service(&mut self, event: Event<Service>) {
        match event {
            Event::Applied(service) => self.plan.apply_service(&service),
            Event::Deleted(key) => self.plan.remove_service(&key),
            Event::Synced => return self.synced.services = true,
            Event::Malformed { key, error } => return log_malformed("Service", &key, &error),
        }
        self.shared_status.metrics.update(|values| {
            values.sync_proxy_rules_service_changes_total += 1;
            values.sync_proxy_rules_service_changes_pending += 1;
        });
    }

    fn apply_slice(&mut self, event: Event<EndpointSlice>) {
        match event {
            Event::Applied(slice) => {
                self.record_trigger(&slice);
                self.plan.apply_slice(&slice);
            }
            Event::Deleted(key) => self.plan.remove_slice(&key),
            Event::Synced => return self.synced.slices = true,
            Event::Malformed { key, error } => return log_malformed("EndpointSlice", &key, &error),
        }
        self.shared_status.metrics.update(|values| {
            values.sync_proxy_rules_endpoint_changes_total += 1;
            values.sync_proxy_rules_endpoint_changes_pending += 1;
        });
    }

    fn record_trigger(&mut self, slice: &EndpointSlice) {
        let time = slice.metadata.annotations.get(TRIGGER_TIME_ANNOTATION);
        if let Some(time) = time.and_then(|time| time.parse::<Timestamp>().ok())
            && time > self.started
            && self.triggers.len() < TRIGGERS_MAX
        {
            self.triggers.push(time);
        }
    }

    fn apply_node(&mut self, event: Event<Node>) {
        match event {
            Event::Applied(node) => {
                self.set_node(Some(&node));
                self.warn_of_closed_node_ports();
            }
            Event::Deleted(_) => {
                // The facts of the Node stay, because the host still exists.
                self.shared_status.health.set_node_eligible(false);
            }
            Event::Synced => {
                self.synced.node = true;
                if self.node.is_none() {
                    self.warn_of_closed_node_ports();
                }
            }
            Event::Malformed { key, error } => log_malformed("Node", &key, &error),
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

    /// Applies a change of the own Node; `None` if the Node does not exist.
    pub(super) fn set_node(&mut self, node: Option<&Node>) {
        self.node = node.map(|node| Box::new(node.clone()));
        if let Some(node) = node {
            self.shared_status
                .health
                .set_node_eligible(node::is_eligible(node));
        }
        let facts = node::facts(node, self.config.bind_address);
        let pods = node::pods(&self.config.pods, node);
        if self.node_ips != facts.ips
            && let Some(ip) = node::ip_without_pod_cidrs(&facts.ips, &pods)
        {
            // Upstream exits here (KPC-15); Portolan implements everything else.
            tracing::error!(%ip, "no Pod CIDR in the IP family of the node; Pods not detected");
        }
        self.node_ips.clone_from(&facts.ips);
        self.plan.set_node(facts);
        self.plan.set_pods(pods);
        self.choose_addresses();
    }

    fn queue_external_changes(&mut self, changes: Vec<ExternalChange>) {
        if self.external_changes.len() + changes.len() > EXTERNAL_CHANGES_MAX {
            self.external_changes = vec![ExternalChange::Everything];
        } else {
            self.external_changes.extend(changes);
        }
    }

    /// Applies settings that may change at runtime.
    fn apply_config(&mut self, config: Config) {
        let fixed = self.config.start_only_differences(&config);
        if !fixed.is_empty() {
            tracing::warn!(
                fields = fixed.join(", "),
                "changed settings apply after a restart"
            );
        }
        tracing::info!("configuration applied");
        self.config.pods = config.pods;
        self.config.node_port_addresses = config.node_port_addresses;
        self.config.bind_address = config.bind_address;
        self.config.masquerade_all = config.masquerade_all;
        self.config.localhost_node_ports = config.localhost_node_ports;
        self.config.sync_period = config.sync_period;
        self.shared_status.health.set_sync_period(self.config.sync_period);
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
        let mut chosen = chosen
            .into_iter()
            .flatten()
            .reduce(|all, more| [all, more].concat());
        if let Some(chosen) = chosen.as_mut()
            && matches!(self.config.node_port_addresses, NodePortSelection::Within(_))
            && node::is_on_loopback(&self.config)
        {
            chosen.push(node::LOCALHOST);
        }
        let on_localhost = node::localhost_node_ports(&self.config, settings);
        self.shared_status.localhost.relay_to(on_localhost);
        self.shared_status.checks.listen_on(chosen);
    }

    fn apply_service_cidr(&mut self, event: Event<ServiceCidr>) {
        match event {
            Event::Applied(cidr) => {
                let key = cidr.metadata.key();
                let nets = cidr.spec.cidrs.iter().filter_map(|text| {
                    text.parse::<IpNet>()
                        .map_err(|error| log_malformed("ServiceCIDR", &key, &error.to_string()))
                        .ok()
                });
                let nets = nets.collect();
                self.service_cidrs.insert(key, nets);
            }
            Event::Deleted(key) => {
                self.service_cidrs.remove(&key);
            }
            Event::Synced => self.synced.service_cidrs = true,
            Event::Malformed { key, error } => log_malformed("ServiceCIDR", &key, &error),
        }
        let mut all: Vec<IpNet> = self.service_cidrs.values().flatten().copied().collect();
        all.sort_unstable();
        all.dedup();
        self.plan.set_service_cidrs(all);
    }
}

fn log_malformed(kind: &str, key: &ObjectKey, error: &str) {
    tracing::warn!(kind, %key, error, "malformed object; its previous state stays");
}
