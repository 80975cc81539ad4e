//! Keeping the kernel in step with the Nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::object::Node;
use client::{Client, Event, Query};
use tokio::time::{Instant, sleep_until};

use crate::{Doubt, Kernel, KernelError, Machine, Plan, Settings};

/// How often the kernel is looked at though no Node changed: somebody may have changed it.
const REPAIR_PERIOD: Duration = Duration::from_secs(30);
/// How soon what was refused is tried again.
const RETRY_PERIOD: Duration = Duration::from_secs(2);
/// How long changes of Nodes are gathered: they come in groups when machines start.
const GATHERING: Duration = Duration::from_millis(20);

/// Keeps routes to the other nodes' Pods until `end`; they stay in force then.
///
/// # Errors
/// [`KernelError`] if the kernel cannot be spoken to; what it refuses is tried again.
pub async fn run(
    client: Client,
    settings: Settings,
    end: impl Future<Output = ()>,
) -> Result<(), KernelError> {
    let mut nodes = client::watch::<Node>(&client, Query::default());
    let mut keeping = Keeping {
        kernel: Kernel::open()?,
        settings,
        machines: BTreeMap::new(),
        told: BTreeSet::new(),
        failed: None,
    };
    // Before all Nodes are known, nothing that is in force is taken away.
    let mut due: Option<Instant> = None;
    let mut is_synced = false;
    tokio::pin!(end);
    loop {
        let wait = due.unwrap_or_else(|| Instant::now() + REPAIR_PERIOD);
        tokio::select! {
            biased;
            () = &mut end => return Ok(()),
            event = nodes.next() => {
                is_synced |= matches!(event, Event::Synced);
                if keeping.take(event) {
                    let soon = Instant::now() + GATHERING;
                    due = Some(due.map_or(soon, |due| due.min(soon)));
                }
            }
            () = sleep_until(wait), if is_synced => {
                let pause = keeping.apply();
                due = Some(Instant::now() + pause);
            }
        }
    }
}

struct Keeping {
    kernel: Kernel,
    settings: Settings,
    machines: BTreeMap<String, Machine>,
    /// What was said already.
    told: BTreeSet<Doubt>,
    failed: Option<String>,
}

impl Keeping {
    /// Takes in what a watch tells; whether the plan may be another now.
    fn take(&mut self, event: Event<Node>) -> bool {
        match event {
            Event::Applied(node) => {
                let machine = Machine::from(&node);
                let before = self.machines.insert(machine.name.clone(), machine.clone());
                before.as_ref() != Some(&machine)
            }
            Event::Deleted(key) => self.machines.remove(&*key.name).is_some(),
            Event::Synced => true,
            Event::Malformed { key, error } => {
                tracing::warn!(kind = "Node", %key, error, "the object cannot be read and is skipped");
                false
            }
        }
    }

    /// Brings the kernel in step; returns after how long to look again.
    fn apply(&mut self) -> Duration {
        let machines: Vec<Machine> = self.machines.values().cloned().collect();
        let plan = Plan::new(&self.settings, &machines);
        for doubt in plan.doubts.difference(&self.told) {
            tracing::warn!("{doubt}");
        }
        self.told.clone_from(&plan.doubts);
        match self.kernel.apply(&self.settings, &plan) {
            Ok(changes) => {
                if !changes.is_empty() {
                    tracing::info!(
                        added = changes.routes.len(),
                        removed = changes.removed_routes.len(),
                        foreign = changes.foreign.len(),
                        "routes to the other nodes' Pods"
                    );
                }
                self.failed = None;
                REPAIR_PERIOD
            }
            Err(error) => {
                let error = error.to_string();
                // Said once, as long as it lasts.
                if self.failed.as_ref() != Some(&error) {
                    tracing::error!(error, "routes to the other nodes' Pods are incomplete");
                }
                self.failed = Some(error);
                RETRY_PERIOD
            }
        }
    }
}
