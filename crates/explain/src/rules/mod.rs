//! The rules, one file each. The number of a code is that of its cause in the documentation of the findings.

mod address_family;
mod affinity_behind_ingress;
mod annotation_unknown;
mod client_dns;
mod client_port;
mod endpoint_address_unusable;
mod endpoints_edited;
mod endpoints_missing;
mod endpoints_truncated;
mod external_ips_ignored;
mod external_name;
mod external_policy_local;
mod frontend_conflict;
mod headless_port;
mod hints_partial;
mod internal_policy_local;
mod load_balancer_ip_changed;
mod load_balancer_pending;
mod network_policy;
mod node_unusable;
mod not_ready_published;
mod other_proxy;
mod plan_refuses;
mod pods_not_ready;
mod pods_not_running;
mod protocol_mismatch;
mod selector_matches_no_pod;
mod selector_matches_other_app;
mod service_absent;
mod service_terminating;
mod slice_port_name;
mod slice_without_service;
mod source_ranges;
mod target_port_name_protocol;
mod target_port_name_undeclared;
mod target_port_numeric_name;
mod target_port_undeclared;

pub use service_absent::absent_service;
pub use service_terminating::is_deleted_with_namespace;

use crate::rule::Rule;

/// All rules, ordered by code.
pub const ALL: &[&Rule] = &[
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
    &client_dns::RULE,
];
