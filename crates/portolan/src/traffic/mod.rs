//! Traffic of Services: reading of connection tracking on this node, and the reports of other nodes.
//!
//! - [`conntrack_entry`]: conversion of entries
//! - [`kernel_settings`]: sysctls that the reader depends on
//! - [`reader`]: samples and events of this node
//! - [`local_plan`]: the plan of this node, from the objects of the cluster
//! - [`query`]: query of a report, as parameters of a URL
//! - [`nodes`]: reports of all nodes, through the API server
//! - [`source`]: traffic for a command, from this node or from all nodes
//! - [`watcher`]: a thread that reads the source repeatedly

pub(crate) mod conntrack_entry;
pub(crate) mod kernel_settings;
pub(crate) mod local_plan;
pub(crate) mod nodes;
pub(crate) mod query;
pub(crate) mod reader;
pub(crate) mod source;
pub(crate) mod watcher;
