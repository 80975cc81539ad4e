//! Flags that several subcommands share, and parsers of values.
//!
//! | Module | Flags of |
//! |---|---|
//! | [`client`], [`administrator`] | kubeconfig of a component, of a user |
//! | [`election`] | leader election |
//! | [`services`], [`access`], [`audit`], [`storage`], [`encryption`] | API server |
//! | [`node_proxy`] | proxy of a node |
//! | [`dns_zone`], [`dns_clients`] | DNS server |
//! | [`pods`] | agent |
//! | [`edge`] | load-balancer edge |
//! | [`traffic`] | commands that show traffic |

pub(crate) mod access;
pub(crate) mod administrator;
pub(crate) mod audit;
pub(crate) mod client;
pub(crate) mod clusterset;
pub(crate) mod dns_clients;
pub(crate) mod dns_zone;
pub(crate) mod edge;
pub(crate) mod election;
pub(crate) mod encryption;
pub(crate) mod ipvs;
pub(crate) mod node_proxy;
pub(crate) mod pods;
pub(crate) mod services;
pub(crate) mod storage;
pub(crate) mod traffic;
pub(crate) mod values;
