//! Local redirects: listeners of this process that replace the endpoints of a Service port in userspace mode.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::SocketAddr;

use plan::{Backend, EndpointSet, PortKey, Scheduler, ServicePortPlan, Target};

/// Listener addresses of Service ports by endpoint set. Connections to a set without a listener are rejected.
#[derive(Debug, Default)]
pub(crate) struct LocalRedirects(HashMap<PortKey, [Option<SocketAddr>; 2]>);

impl LocalRedirects {
    /// Sets the listeners of a Service port; `[None; 2]` removes the port.
    pub(crate) fn set(&mut self, port: &PortKey, local_redirects: [Option<SocketAddr>; 2]) {
        if local_redirects == [None; 2] {
            self.0.remove(port);
        } else {
            self.0.insert(port.clone(), local_redirects);
        }
    }

    /// Replaces the endpoints of a Service port by its listeners.
    /// Access rules stay as planned. Masquerading and affinity are removed, because the listener needs the client's
    /// address and keeps affinity itself.
    pub(super) fn redirected(&self, port: &ServicePortPlan) -> ServicePortPlan {
        let local_redirects = self.0.get(&port.key).copied().unwrap_or_default();
        let [cluster, local] = local_redirects.map(|redirect| {
            let backend = redirect.map(|address| Backend {
                address,
                can_be_local: false,
            });
            backend.into_iter().collect()
        });
        let mut redirected = ServicePortPlan {
            cluster,
            local,
            affinity_seconds: None,
            scheduler: Scheduler::default(),
            drain_seconds: None,
            connection_age_max_seconds: None,
            rebalance_percent: None,
            ..port.clone()
        };
        for frontend in &mut redirected.frontends {
            for target in &mut frontend.targets {
                if let Target::Balance { set, .. } = *target {
                    *target = match local_redirects[set as usize] {
                        Some(_) => Target::Balance {
                            set,
                            masquerade: false,
                        },
                        None => Target::Reject,
                    };
                }
            }
        }
        redirected
    }
}

/// Returns a Service port as it is written to the kernel: with its listeners if there are local redirects.
pub(super) fn with_local_redirects<'p>(
    local_redirects: Option<&LocalRedirects>,
    port: &'p ServicePortPlan,
) -> Cow<'p, ServicePortPlan> {
    match local_redirects {
        Some(local_redirects) => Cow::Owned(local_redirects.redirected(port)),
        None => Cow::Borrowed(port),
    }
}

/// [`LocalRedirects::set`] indexes its array by the discriminant.
const _: () = assert!(EndpointSet::Cluster as usize == 0 && EndpointSet::Local as usize == 1);
