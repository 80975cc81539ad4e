//! Node proxy: it watches Services, EndpointSlices, its Node and the Service CIDRs, maintains the [`plan::Plan`], and
//! applies it by a [`dataplane::Dataplane`].
//!
//! - `run`: assembly of the parts below
//! - `configuration`: kube-proxy's configuration file and its validation
//! - `config`: settings of the proxy
//! - `sources`: watches, each in a task, with one bounded queue of [`worker::Update`]s
//! - `worker`: thread that owns plan and data plane: it applies queued updates and retries
//! - `connections`: connections and flows that the proxy ends, after their endpoint left, its node failed, a maximum age
//!   or a scale-out. The module deletes their conntrack entries, and resets their peers
//! - `reports`: faults of Services, Events, metrics, traffic of Services, and the pages `/statusz` and `/flagz`
//! - `two_tier_state`: Services and Nodes of two-tier forwarding
//! - `node`: facts of the Node object, and addresses of this node
//! - `node_plan`: the plan of a node from a list of objects, for other processes
//! - `localhost`: TCP node ports on 127.0.0.1, relayed by this process
//! - `instance`: at most one proxy in a network namespace
//! - `sysctl`: kernel settings at the start
//! - `leftovers`: removal of the rules of kube-proxy and of Portolan's other modes
//! - `health`: health servers with kube-proxy's ports and paths
//! - `plan_reader`: access of other parts of the process to the plan
//!
//! Except in userspace mode, the rules stay in the kernel when the process exits; the next process adopts them.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use client::{Client, Config};
//! use dataplane::nftables::{NftablesDataplane, Options};
//!
//! let config = proxy::Config {
//!     node_name: "node-a".to_owned(),
//!     ..proxy::Config::default()
//! };
//! let client = Client::new(Config::in_cluster()?)?;
//! let dataplane = NftablesDataplane::open(Options::default())?;
//! proxy::run(config, client, dataplane, std::future::pending()).await?;
//! # Ok(())
//! # }
//! ```

mod config;
pub mod configuration;
mod connections;
mod health;
mod instance;
mod leftovers;
mod localhost;
mod node;
mod node_plan;
mod plan_reader;
mod reports;
mod run;
mod sources;
mod sysctl;
mod two_tier_state;
mod worker;

pub use config::{Config, NodePortSelection, NodePortSelectionError, PodSelection};
pub use instance::{AnotherProxy, InstanceGuard};
pub use leftovers::{LeftoverScope, Removal, remove_leftovers};
pub use node_plan::{NodeObjects, plan_of_node};
pub use plan_reader::{PlanReadError, PlanReader};
pub use reports::debug_pages::Pages;
pub use run::{ProxyError, run, run_readable, run_reloading};
pub use sysctl::{ConntrackSettings, set_up_host};
