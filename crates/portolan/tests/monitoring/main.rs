//! The files in `deploy/monitoring` and the tables of `docs/monitoring.md`, compared with each other, with `promtool`,
//! and with the metrics of running components.

mod components;
mod documentation;
mod files;
mod names;
mod pages;
mod promql;
mod promtool;
mod syntax;
#[path = "../multi_node/test_cluster.rs"]
#[allow(dead_code, reason = "each test program uses its own part of this")]
mod test_cluster;
