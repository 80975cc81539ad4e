//! The rules, one file each. The number of a code is that of its cause in the documentation of the findings.

mod address_family;
mod address_unanswered;
mod affinity_behind_ingress;
mod annotation_unknown;
mod application_response;
mod bgp_session;
mod client_dns;
mod client_port;
mod cluster_range;
mod conntrack_full;
mod endpoint_address_unusable;
mod endpoints_edited;
mod endpoints_missing;
mod endpoints_truncated;
mod external_ips_ignored;
mod external_name;
mod external_policy_local;
mod forwarding_filtered;
mod frontend_conflict;
mod hairpin_off;
mod headless_port;
mod hints_partial;
mod internal_policy_local;
mod ipvs_leftover;
mod kernel_parameters;
mod listener_absent;
mod load_balancer_ip_changed;
mod load_balancer_pending;
mod masquerade_ports;
mod network_policy;
mod node_address;
mod node_unusable;
mod not_ready_published;
mod other_proxy;
mod path_mtu;
mod ping_unanswered;
mod plan_refuses;
mod pod_route;
mod pods_not_ready;
mod pods_not_running;
mod port_taken;
mod protocol_mismatch;
mod proxy_absent;
mod response_protocol;
mod rules_changed;
mod rules_outdated;
mod selector_matches_no_pod;
mod selector_matches_other_app;
mod service_absent;
mod service_terminating;
mod slice_port_name;
mod slice_without_service;
mod source_ranges;
mod stale_flow;
mod target_port_name_protocol;
mod target_port_name_undeclared;
mod target_port_numeric_name;
mod target_port_undeclared;
mod two_proxies;
mod unreachable_outside;

pub(crate) use service_absent::absent_service;
pub(crate) use service_terminating::is_deleted_with_namespace;

use crate::rule::Rule;

/// All rules, ordered by code.
pub(crate) const ALL: &[&Rule] = &[
    &service_absent::RULE,
    &selector_matches_no_pod::RULE,
    &selector_matches_other_app::RULE,
    &pods_not_ready::RULE,
    &pods_not_running::RULE,
    &target_port_undeclared::RULE,
    &target_port_numeric_name::RULE,
    &target_port_name_undeclared::RULE,
    &target_port_name_protocol::RULE,
    &protocol_mismatch::RULE,
    &client_port::RULE,
    &endpoints_missing::RULE,
    &slice_without_service::RULE,
    &endpoints_edited::RULE,
    &endpoints_truncated::RULE,
    &slice_port_name::RULE,
    &endpoint_address_unusable::RULE,
    &headless_port::RULE,
    &external_name::RULE,
    &not_ready_published::RULE,
    &service_terminating::RULE,
    &load_balancer_pending::RULE,
    &load_balancer_ip_changed::RULE,
    &source_ranges::RULE,
    &external_policy_local::RULE,
    &internal_policy_local::RULE,
    &hints_partial::RULE,
    &affinity_behind_ingress::RULE,
    &frontend_conflict::RULE,
    &external_ips_ignored::RULE,
    &other_proxy::RULE,
    &network_policy::RULE,
    &address_family::RULE,
    &annotation_unknown::RULE,
    &node_unusable::RULE,
    &plan_refuses::RULE,
    &rules_outdated::RULE,
    &client_dns::RULE,
    &proxy_absent::RULE,
    &rules_changed::RULE,
    &two_proxies::RULE,
    &forwarding_filtered::RULE,
    &kernel_parameters::RULE,
    &hairpin_off::RULE,
    &conntrack_full::RULE,
    &stale_flow::RULE,
    &cluster_range::RULE,
    &listener_absent::RULE,
    &port_taken::RULE,
    &path_mtu::RULE,
    &pod_route::RULE,
    &masquerade_ports::RULE,
    &node_address::RULE,
    &ipvs_leftover::RULE,
    &address_unanswered::RULE,
    &bgp_session::RULE,
    &unreachable_outside::RULE,
    &ping_unanswered::RULE,
    &response_protocol::RULE,
    &application_response::RULE,
];

/// Rules whose check of the cluster is about observed nodes. These nodes carry the connections of all Services, so the
/// check applies to a named Service, too.
pub(crate) const OF_NODES: &[&Rule] = &[
    &rules_outdated::RULE,
    &proxy_absent::RULE,
    &rules_changed::RULE,
    &two_proxies::RULE,
    &forwarding_filtered::RULE,
    &kernel_parameters::RULE,
    &hairpin_off::RULE,
    &conntrack_full::RULE,
    &cluster_range::RULE,
    &port_taken::RULE,
    &path_mtu::RULE,
    &pod_route::RULE,
    &node_address::RULE,
    &ipvs_leftover::RULE,
    &bgp_session::RULE,
];
