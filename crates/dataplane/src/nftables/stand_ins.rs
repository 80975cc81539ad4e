//! Addresses that stand in for endpoints: where all of a Service port's connections go when a process on this node
//! takes them, and passes them on itself.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::SocketAddr;

use plan::{Backend, PortKey, Scheduler, ServicePortPlan, Set, Target};

/// The stand-ins of Service ports by set. A set that has none is refused.
#[derive(Debug, Default)]
pub(crate) struct StandIns(HashMap<PortKey, [Option<SocketAddr>; 2]>);

impl StandIns {
    /// Gives a Service port's sets other stand-ins, none for a port that is gone.
    pub(crate) fn set(&mut self, port: &PortKey, stand_ins: [Option<SocketAddr>; 2]) {
        if stand_ins == [None; 2] {
            self.0.remove(port);
        } else {
            self.0.insert(port.clone(), stand_ins);
        }
    }

    /// What is to be written for a Service port: who it lets in and whom it refuses stays as it is planned. The
    /// process that takes connections has to see who they come from, and keeps clients at their endpoints itself.
    pub(super) fn written(&self, port: &ServicePortPlan) -> ServicePortPlan {
        let stand_ins = self.0.get(&port.key).copied().unwrap_or_default();
        let [cluster, local] = stand_ins.map(|stand_in| {
            let backend = stand_in.map(|address| Backend {
                address,
                local: false,
            });
            backend.into_iter().collect()
        });
        let mut written = ServicePortPlan {
            cluster,
            local,
            affinity_seconds: None,
            scheduler: Scheduler::default(),
            drain_seconds: None,
            ..port.clone()
        };
        for frontend in &mut written.frontends {
            for target in &mut frontend.targets {
                if let Target::Balance { set, .. } = *target {
                    *target = match stand_ins[set as usize] {
                        Some(_) => Target::Balance {
                            set,
                            masquerade: false,
                        },
                        None => Target::Reject,
                    };
                }
            }
        }
        written
    }
}

/// What is to be written for a Service port, with stand-ins or without.
pub(super) fn written<'p>(
    stand_ins: Option<&StandIns>,
    port: &'p ServicePortPlan,
) -> Cow<'p, ServicePortPlan> {
    match stand_ins {
        Some(stand_ins) => Cow::Owned(stand_ins.written(port)),
        None => Cow::Borrowed(port),
    }
}

/// The place of a set in [`StandIns::set`].
const _: () = assert!(Set::Cluster as usize == 0 && Set::Local as usize == 1);
