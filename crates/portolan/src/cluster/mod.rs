//! Parts of the clusters that `portolan up` and `portolan join` run.
//!
//! | Module | Contents |
//! |---|---|
//! | [`control_plane`] | API server, controllers and assigner of the first node, as `up` runs them |
//! | [`node_components`], [`node_proxy`], [`load_balancing`] | proxy, DNS, agent, routes, announcer and edge of each node |
//! | [`observation_report`], [`flows_report`] | observation and flows of the node, which the agent's endpoint serves |
//! | [`chart`] | the map of the cluster, which `up` serves |
//! | [`supervisor`], [`status_file`], [`running_process`] | restarts of failed components; the file for `portolan status`; the end of a running process |
//! | [`cluster_info`], [`network`] | settings that all nodes share; the ConfigMap that publishes them |
//! | [`discovery`], [`join_token`] | verification of a server by the hash of its CA |
//! | [`join_directory`], [`node_certificate`] | membership of a node, its certificates and their renewal |
//! | [`identities`] | credentials of the components of the first node |
//! | [`dns_service`], [`address_pool`], [`ingress_class`], [`pod_cidrs`], [`server_taint`] | objects that `up` creates |
//! | [`kubeconfig_merge`] | the cluster in the kubeconfig of a user |

pub(crate) mod address_pool;
pub(crate) mod chart;
pub(crate) mod cluster_info;
pub(crate) mod control_plane;
pub(crate) mod discovery;
mod dns_service;
mod flows_report;
pub(crate) mod identities;
mod ingress_class;
pub(crate) mod join_directory;
pub(crate) mod join_token;
pub(crate) mod kubeconfig_merge;
mod load_balancing;
pub(crate) mod network;
pub(crate) mod node_certificate;
pub(crate) mod node_components;
pub(crate) mod node_proxy;
pub(crate) mod observation_report;
pub(crate) mod pod_cidrs;
pub(crate) mod running_process;
pub(crate) mod server_taint;
pub(crate) mod status_file;
pub(crate) mod supervisor;
