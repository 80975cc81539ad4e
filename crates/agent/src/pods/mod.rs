//! Lifecycle of Pods: the sync loop, the worker of each Pod, status, Events, and the state that outlives the agent.

pub(crate) mod context;
pub mod events;
pub(crate) mod leftovers;
pub(crate) mod pod_api;
pub(crate) mod pod_removal;
pub(crate) mod pod_worker;
pub mod state_directory;
pub mod status;
pub(crate) mod status_pace;
pub(crate) mod status_writer;
pub(crate) mod sync_loop;
