//! Egress: Pods of a Service with the annotation `service.portolan.dev/egress` leave the cluster with its load
//! balancer IP as source address (LBK-05).
//!
//! The owner of the address translates the source, because it receives the replies. Other nodes send the packets of
//! these Pods to the owner by a policy route. Without an owner, or without a route to it, the packets are dropped.
//! Destinations inside of the cluster are not affected. The rules outlive the process; the next one replaces them after
//! it has read all objects.
//!
//! | Module | Contents |
//! |---|---|
//! | `objects` | Services with the annotation, their Pods, Nodes; pure |
//! | `plan` | decision about each Pod; pure |
//! | `state` | desired state of the kernel; pure |
//! | `reports` | states of Services to report in Events; pure |
//! | `table` | nftables tables, as transactions |
//! | `kernel` | tables, policy rules and routes in the kernel |
//! | `stale_flows` | conntrack entries with another source address |
//!
//! The tables do not depend on the mode of the proxy. The marking chain runs after DNAT, so it sees the endpoint and
//! not the cluster IP as destination. The translating chain runs before the chains of other programs, which do not
//! translate a connection again.

pub(crate) mod kernel;
pub(crate) mod objects;
pub(crate) mod plan;
pub(crate) mod reports;
pub(crate) mod stale_flows;
pub(crate) mod state;
mod table;
