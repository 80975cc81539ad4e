//! Calls of the controllers' pure functions with the contents of the caches.

use api::object::ObjectKey;
use jiff::Timestamp;
use reconcile::events::{EventBatch, EventText, ObjectReference};

use super::job::JobKind;
use super::reconciler::EndpointReconciler;
use super::sync_key::{SyncKey, Topic, selects_pods};
use crate::endpoint_slice::SliceWrite;
use crate::endpoints::EndpointsWrite;
use crate::{endpoint_slice, endpoints, mirroring};

impl EndpointReconciler {
    /// Returns the job that brings the objects of `work` to their desired state; `None` if they are in it.
    pub(super) fn job_for(&mut self, work: &SyncKey) -> Option<JobKind> {
        match work {
            SyncKey::Slices(key) => self.slices_job(key),
            SyncKey::Endpoints(key) => self.endpoints_job(key),
            SyncKey::Mirroring(key) => self.mirroring_job(key),
        }
    }

    /// Returns the writes of EndpointSlices for a Service; `None` if nothing changes.
    fn slices_job(&mut self, key: &ObjectKey) -> Option<JobKind> {
        let slices = self.caches.slices.of(key);
        let service = self.caches.service(key);
        let mut trigger_time = None;
        let changes = match service {
            None => {
                // The garbage collector deletes the slices, unless the Service was deleted with `orphan`.
                self.slice_triggers.remove(key);
                endpoint_slice::SliceChanges::default()
            }
            Some(service) if !selects_pods(service) => endpoint_slice::SliceChanges::default(),
            Some(service) => {
                let pods = self.caches.pods_of(&key.namespace, &service.spec.selector);
                trigger_time = self.slice_triggers.advance(service, &pods);
                self.slice_triggers.share_with(&self.endpoints_triggers, key);
                endpoint_slice::reconcile(&endpoint_slice::Inputs {
                    service,
                    pods: &pods,
                    node_zones: &|name| self.caches.nodes.get(name).map(|node| node.zone.clone()),
                    zone_cpus: &self.caches.zone_cpus,
                    slices: &slices,
                    endpoints_per_slice_max: self.options.max_endpoints_per_slice,
                    trigger_time: trigger_time.map(|time| time.to_string()).as_deref(),
                })
            }
        };
        if !changes.pods_without_node.is_empty() {
            // A Node that appears adds the Service to the queue.
            tracing::warn!(service = %key, pods = ?changes.pods_without_node, "Pods on unknown Nodes omitted");
        }
        self.metrics.update(|values| match service {
            Some(service) if selects_pods(service) => {
                let writes = changes.writes.len();
                values.slices.observe_sync(key, service, changes.counts, writes);
            }
            _ => values.slices.remove_service(key),
        });
        let regarding = service.map(ObjectReference::of);
        self.report(
            Topic::Findings(SyncKey::Slices(key.clone())),
            regarding,
            changes.events,
        );
        writes(changes.writes, trigger_time)
    }

    fn endpoints_job(&mut self, key: &ObjectKey) -> Option<JobKind> {
        let current = self.caches.endpoints.get(key);
        let write = match self.caches.service(key) {
            None => {
                self.endpoints_triggers.remove(key);
                current.map(|endpoints| EndpointsWrite::Delete(endpoints.metadata.clone()))
            }
            Some(service) if !selects_pods(service) => None,
            Some(service) => {
                let pods = self.caches.pods_of(&key.namespace, &service.spec.selector);
                let trigger_time = self.endpoints_triggers.advance(service, &pods);
                self.endpoints_triggers.share_with(&self.slice_triggers, key);
                endpoints::reconcile(&endpoints::Inputs {
                    service,
                    pods: &pods,
                    current,
                    trigger_time: trigger_time.map(|time| time.to_string()).as_deref(),
                })
            }
        };
        write.map(|write| JobKind::WriteEndpoints(Box::new(write)))
    }

    fn mirroring_job(&mut self, key: &ObjectKey) -> Option<JobKind> {
        let endpoints = self.caches.endpoints.get(key);
        let changes = mirroring::reconcile(&mirroring::Inputs {
            endpoints,
            service: self.caches.service(key),
            slices: &self.caches.mirrored.of(key),
            endpoints_per_subset_max: self.options.mirroring_max_endpoints_per_subset,
        });
        let regarding = endpoints.map(ObjectReference::of);
        self.report(
            Topic::Findings(SyncKey::Mirroring(key.clone())),
            regarding,
            changes.events,
        );
        self.metrics
            .update(|values| values.mirroring.observe_changes(key, changes.counts));
        writes(changes.writes, None)
    }

    /// Queues the Events that are new.
    pub(super) fn report(
        &mut self,
        topic: Topic,
        regarding: Option<ObjectReference>,
        events: Vec<EventText>,
    ) {
        let (Topic::Findings(work) | Topic::Failure(work)) = &topic;
        let component = work.controller().name();
        let events = self.events.replace(topic, events);
        if let Some(regarding) = regarding.filter(|_| !events.is_empty()) {
            self.event_batches.push(EventBatch {
                component,
                regarding,
                events,
            });
        }
    }
}

fn writes(writes: Vec<SliceWrite>, trigger_time: Option<Timestamp>) -> Option<JobKind> {
    (!writes.is_empty()).then_some(JobKind::WriteSlices { writes, trigger_time })
}
