//! Reconciliation of the kernel with the Nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::object::Node;
use client::{Client, Event, Query};
use tokio::time::{Instant, sleep_until};

use crate::{ClusterNode, Kernel, KernelError, Plan, RouteFault, Settings};

/// Pause between two comparisons with the kernel if no Node changes, because another program may have changed it.
const REPAIR_PERIOD: Duration = Duration::from_secs(30);
/// Pause before refused changes are retried.
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// Delay that collects Node events, which arrive in groups when nodes start.
const BATCH_DELAY: Duration = Duration::from_millis(20);

/// Maintains routes to the Pods of other nodes until `shutdown` is ready. The routes stay in the kernel afterwards.
///
/// # Errors
///
/// [`KernelError`] if the kernel is not reachable. Refused changes are retried.
pub async fn run(
    client: Client,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), KernelError> {
    let mut nodes = client::watch::<Node>(&client, Query::default());
    let mut reconciler = Reconciler {
        kernel: Kernel::open()?,
        settings,
        nodes: BTreeMap::new(),
        reported: BTreeSet::new(),
        last_error: None,
    };
    // Routes are not removed before the initial list of Nodes is complete.
    let mut due: Option<Instant> = None;
    let mut is_synced = false;
    tokio::pin!(shutdown);
    loop {
        let wait = due.unwrap_or_else(|| Instant::now() + REPAIR_PERIOD);
        tokio::select! {
            biased;
            () = &mut shutdown => return Ok(()),
            event = nodes.next() => {
                is_synced |= matches!(event, Event::Synced);
                if reconciler.handle_event(event) {
                    let soon = Instant::now() + BATCH_DELAY;
                    due = Some(due.map_or(soon, |due| due.min(soon)));
                }
            }
            () = sleep_until(wait), if is_synced => {
                let pause = reconciler.apply();
                due = Some(Instant::now() + pause);
            }
        }
    }
}

/// State of the nodes, and the kernel that gets the routes.
struct Reconciler {
    kernel: Kernel,
    settings: Settings,
    nodes: BTreeMap<String, ClusterNode>,
    /// Faults that are logged already.
    reported: BTreeSet<RouteFault>,
    last_error: Option<String>,
}

impl Reconciler {
    /// Handles an event. Returns true if the plan may change.
    fn handle_event(&mut self, event: Event<Node>) -> bool {
        match event {
            Event::Applied(node) => {
                let node = ClusterNode::from(&node);
                let before = self.nodes.insert(node.name.clone(), node.clone());
                before.as_ref() != Some(&node)
            }
            Event::Deleted(key) => self.nodes.remove(&*key.name).is_some(),
            Event::Synced => true,
            Event::Malformed { key, error } => {
                tracing::warn!(kind = "Node", %key, error, "malformed object skipped");
                false
            }
        }
    }

    /// Applies the plan. Returns the pause before the next run.
    fn apply(&mut self) -> Duration {
        let nodes: Vec<ClusterNode> = self.nodes.values().cloned().collect();
        let plan = Plan::new(&self.settings, &nodes);
        for fault in plan.faults.difference(&self.reported) {
            tracing::warn!(%fault, "no route to the Pods of a Node");
        }
        self.reported.clone_from(&plan.faults);
        match self.kernel.apply(&self.settings, &plan) {
            Ok(changes) => {
                if !changes.is_empty() {
                    tracing::info!(
                        added = changes.routes.len(),
                        removed = changes.removed_routes.len(),
                        foreign = changes.foreign.len(),
                        "routes to other nodes changed"
                    );
                }
                self.last_error = None;
                REPAIR_PERIOD
            }
            Err(error) => {
                let error = error.to_string();
                // The same error is logged once.
                if self.last_error.as_ref() != Some(&error) {
                    tracing::error!(error, "routes to other nodes not applied");
                }
                self.last_error = Some(error);
                RETRY_PERIOD
            }
        }
    }
}
