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

pub mod access;
pub mod administrator;
pub mod audit;
pub mod client;
pub mod clusterset;
pub mod dns_clients;
pub mod dns_zone;
pub mod edge;
pub mod election;
pub mod encryption;
pub mod ipvs;
pub mod node_proxy;
pub mod pods;
pub mod services;
pub mod storage;
pub mod traffic;
pub mod values;
