//! What is to be done about a key: the pure functions of the controllers, put to the caches.

use api::object::ObjectKey;
use jiff::Timestamp;

use super::core::Core;
use super::job::Action;
use super::work::{Topic, Work, selects_pods};
use crate::endpoints::EndpointsWrite;
use crate::endpointslice::SliceWrite;
use crate::events::{Finding, Notice, Regarding};
use crate::{endpoints, endpointslice, mirroring};

impl Core {
    /// What brings a key to what it should be; `None` if it is that already.
    pub(super) fn action(&mut self, work: &Work) -> Option<Action> {
        match work {
            Work::Slices(key) => self.slices_action(key),
            Work::Endpoints(key) => self.endpoints_action(key),
            Work::Mirroring(key) => self.mirroring_action(key),
        }
    }

    fn slices_action(&mut self, key: &ObjectKey) -> Option<Action> {
        let slices = self.world.slices.of(key);
        let service = self.world.services.get(key);
        let mut trigger_time = None;
        let outcome = match service {
            None => {
                // What a Service leaves behind is the garbage collector's, unless somebody wants it orphaned.
                self.slice_triggers.forget(key);
                endpointslice::Outcome::default()
            }
            Some(service) if !selects_pods(service) => endpointslice::Outcome::default(),
            Some(service) => {
                let pods = self.world.pods_of(&key.namespace, &service.spec.selector);
                trigger_time = self.slice_triggers.advance(service, &pods);
                endpointslice::reconcile(&endpointslice::Inputs {
                    service,
                    pods: &pods,
                    node_zones: &|name| self.world.nodes.get(name).map(|node| node.zone.clone()),
                    zone_cpus: &self.world.zone_cpus,
                    slices: &slices,
                    endpoints_per_slice_max: self.options.max_endpoints_per_slice,
                    trigger_time: trigger_time.map(|time| time.to_string()).as_deref(),
                })
            }
        };
        if !outcome.pods_without_node.is_empty() {
            // A Node that appears brings the Service back to the queue by itself.
            tracing::warn!(service = %key, pods = ?outcome.pods_without_node, "Pods on unknown Nodes are left out");
        }
        self.metrics.update(|values| match service {
            Some(service) if selects_pods(service) => {
                let writes = outcome.writes.len();
                values.slices.synced(key, service, outcome.counts, writes);
            }
            _ => values.slices.forget(key),
        });
        let regarding = service.map(Regarding::object);
        self.tell(
            Topic::Findings(Work::Slices(key.clone())),
            regarding,
            outcome.findings,
        );
        writes(outcome.writes, trigger_time)
    }

    fn endpoints_action(&mut self, key: &ObjectKey) -> Option<Action> {
        let current = self.world.endpoints.get(key);
        let write = match self.world.services.get(key) {
            None => {
                self.endpoints_triggers.forget(key);
                current.map(|endpoints| EndpointsWrite::Delete(endpoints.metadata.clone()))
            }
            Some(service) if !selects_pods(service) => None,
            Some(service) => {
                let pods = self.world.pods_of(&key.namespace, &service.spec.selector);
                let trigger_time = self.endpoints_triggers.advance(service, &pods);
                endpoints::reconcile(&endpoints::Inputs {
                    service,
                    pods: &pods,
                    current,
                    trigger_time: trigger_time.map(|time| time.to_string()).as_deref(),
                })
            }
        };
        write.map(|write| Action::WriteEndpoints(Box::new(write)))
    }

    fn mirroring_action(&mut self, key: &ObjectKey) -> Option<Action> {
        let endpoints = self.world.endpoints.get(key);
        let outcome = mirroring::reconcile(&mirroring::Inputs {
            endpoints,
            service: self.world.services.get(key),
            slices: &self.world.mirrored.of(key),
            endpoints_per_subset_max: self.options.mirroring_max_endpoints_per_subset,
        });
        let regarding = endpoints.map(Regarding::object);
        self.tell(
            Topic::Findings(Work::Mirroring(key.clone())),
            regarding,
            outcome.findings,
        );
        self.metrics
            .update(|values| values.mirroring.synced(key, outcome.counts));
        writes(outcome.writes, None)
    }

    /// Notes for people what is new among the findings.
    pub(super) fn tell(&mut self, topic: Topic, regarding: Option<Regarding>, findings: Vec<Finding>) {
        let (Topic::Findings(work) | Topic::Failure(work)) = &topic;
        let component = work.controller().name();
        let findings = self.told.news(topic, findings);
        if let Some(regarding) = regarding.filter(|_| !findings.is_empty()) {
            self.notices.push(Notice {
                component,
                regarding,
                findings,
            });
        }
    }
}

fn writes(writes: Vec<SliceWrite>, trigger_time: Option<Timestamp>) -> Option<Action> {
    (!writes.is_empty()).then_some(Action::WriteSlices { writes, trigger_time })
}
