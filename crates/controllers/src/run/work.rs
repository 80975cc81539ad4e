//! What is done about a key: a sync computes the writes, a task makes them, and its outcome comes back.

use std::time::Instant;

use api::object::{Endpoints, ObjectKey, Pod, Resource, Service};
use client::ClientError;
use tokio::task::JoinError;

use super::Loop;
use crate::endpoints::EndpointsWrite;
use crate::endpointslice::{Report, SliceWrite};
use crate::events::{Finding, Regarding, post};
use crate::placement::{needs_node, no_node, place, says_unschedulable};
use crate::selection::Controller;
use crate::{endpoints, endpointslice, mirroring};

/// What a worker looks at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Work {
    /// The slices of a Service.
    Slices(ObjectKey),
    /// The Endpoints of a Service.
    Endpoints(ObjectKey),
    /// The mirrored slices of Endpoints.
    Mirroring(ObjectKey),
    /// A Pod that may need a Node.
    Placement(ObjectKey),
}

impl Work {
    /// The controller whose work this is.
    pub(super) fn controller(&self) -> Controller {
        match self {
            Self::Slices(_) => Controller::EndpointSlice,
            Self::Endpoints(_) => Controller::Endpoints,
            Self::Mirroring(_) => Controller::EndpointSliceMirroring,
            Self::Placement(_) => Controller::PodPlacement,
        }
    }

    fn key(&self) -> &ObjectKey {
        match self {
            Self::Slices(key) | Self::Endpoints(key) | Self::Mirroring(key) | Self::Placement(key) => key,
        }
    }
}

/// What Events are about: what a sync found, or that its writes fail.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    Findings(Work),
    Failure(Work),
}

/// What a worker reports.
pub(super) enum Done {
    Slices(ObjectKey, Report),
    Endpoints(ObjectKey, Result<Option<Endpoints>, ClientError>),
    Mirroring(ObjectKey, Report),
    Placement(ObjectKey, Result<(), ClientError>),
    /// Events were written, or logged as lost.
    Told,
}

/// Whether the controllers keep endpoints for the Service (EPS-01, EPC-01).
pub(super) fn selects_pods(service: &Service) -> bool {
    !service.spec.selector.is_empty() && service.spec.kind != "ExternalName"
}

impl Loop {
    /// Starts syncs, as many as may be under way.
    pub(super) fn start_work(&mut self) {
        let controllers = self.options.controllers.len().max(1);
        let most = self.options.concurrent_service_endpoint_syncs.max(1) * controllers;
        while self.tasks.len() < most {
            let Some(work) = self.queue.take() else { return };
            match work {
                Work::Slices(key) => self.sync_slices(key),
                Work::Endpoints(key) => self.sync_endpoints(key),
                Work::Mirroring(key) => self.sync_mirroring(key),
                Work::Placement(key) => self.place(key),
            }
        }
    }

    fn sync_slices(&mut self, key: ObjectKey) {
        let slices = self.world.slices.of(&key);
        let service = self.world.services.get(&key);
        let outcome = match service {
            None => {
                self.slice_triggers.forget(&key);
                let names = slices.iter().map(|slice| slice.metadata.name.clone());
                endpointslice::Outcome {
                    writes: names.map(SliceWrite::Delete).collect(),
                    ..endpointslice::Outcome::default()
                }
            }
            Some(service) if !selects_pods(service) => endpointslice::Outcome::default(),
            Some(service) => {
                let pods = self.world.pods_of(&key.namespace, &service.spec.selector);
                let trigger_time = self.slice_triggers.advance(service, &pods);
                endpointslice::reconcile(&endpointslice::Inputs {
                    service,
                    pods: &pods,
                    node_zones: &|name| self.world.nodes.get(name).map(|node| node.zone.clone()),
                    zone_cpus: &self.world.zone_cpus,
                    slices: &slices,
                    endpoints_per_slice_max: self.options.max_endpoints_per_slice,
                    trigger_time: trigger_time.as_deref(),
                })
            }
        };
        if !outcome.pods_without_node.is_empty() {
            // A Node that appears brings the Service back to the queue by itself.
            tracing::warn!(service = %key, pods = ?outcome.pods_without_node, "Pods on unknown Nodes are left out");
        }
        let regarding = service.map(Regarding::object);
        let work = Work::Slices(key.clone());
        self.tell(Topic::Findings(work.clone()), regarding, outcome.findings);
        self.write_slices(work, outcome.writes, Done::Slices);
    }

    fn sync_endpoints(&mut self, key: ObjectKey) {
        let current = self.world.endpoints.get(&key);
        let write = match self.world.services.get(&key) {
            None => {
                self.endpoints_triggers.forget(&key);
                current.map(|endpoints| EndpointsWrite::Delete {
                    uid: endpoints.metadata.uid.clone(),
                })
            }
            Some(service) if !selects_pods(service) => None,
            Some(service) => {
                let pods = self.world.pods_of(&key.namespace, &service.spec.selector);
                let trigger_time = self.endpoints_triggers.advance(service, &pods);
                endpoints::reconcile(&endpoints::Inputs {
                    service,
                    pods: &pods,
                    current,
                    trigger_time: trigger_time.as_deref(),
                })
            }
        };
        let Some(write) = write else {
            return self.settle(Work::Endpoints(key), None);
        };
        let client = self.client.clone();
        self.tasks.spawn(async move {
            let outcome = endpoints::carry_out(&client, &key, write).await;
            Done::Endpoints(key, outcome)
        });
    }

    fn sync_mirroring(&mut self, key: ObjectKey) {
        let endpoints = self.world.endpoints.get(&key);
        let outcome = mirroring::reconcile(&mirroring::Inputs {
            endpoints,
            service: self.world.services.get(&key),
            slices: &self.world.mirrored.of(&key),
            endpoints_per_subset_max: self.options.mirroring_max_endpoints_per_subset,
        });
        let regarding = endpoints.map(Regarding::object);
        let work = Work::Mirroring(key.clone());
        self.tell(Topic::Findings(work.clone()), regarding, outcome.findings);
        self.write_slices(work, outcome.writes, Done::Mirroring);
    }

    /// Makes writes on slices in a task of their own; without any, the work is done.
    fn write_slices(&mut self, work: Work, writes: Vec<SliceWrite>, done: fn(ObjectKey, Report) -> Done) {
        if writes.is_empty() {
            return self.settle(work, None);
        }
        let (client, key) = (self.client.clone(), work.key().clone());
        self.tasks.spawn(async move {
            let report = endpointslice::carry_out(&client, &key.namespace, writes).await;
            done(key, report)
        });
    }

    fn place(&mut self, key: ObjectKey) {
        let (uid, is_told) = match self.world.pods.get(&key) {
            Some(pod) if needs_node(pod) => (pod.metadata.uid.clone(), says_unschedulable(pod)),
            _ => return self.settle(Work::Placement(key), None),
        };
        let node = self.round_robin.choose(&self.world);
        if node.is_none() && is_told {
            let waits = no_node(Pod::collection(Some(&key.namespace)));
            return self.settle(Work::Placement(key), Some(waits));
        }
        let client = self.client.clone();
        self.tasks.spawn(async move {
            let outcome = place(&client, &key, &uid, node.as_deref()).await;
            Done::Placement(key, outcome)
        });
    }

    /// Takes in what a task reports.
    pub(super) fn take_outcome(&mut self, outcome: Result<Done, JoinError>) {
        match outcome {
            Ok(Done::Slices(key, report)) => {
                let error = report.take_into(&mut self.world.slices);
                self.settle(Work::Slices(key), error);
            }
            Ok(Done::Mirroring(key, report)) => {
                let error = report.take_into(&mut self.world.mirrored);
                self.settle(Work::Mirroring(key), error);
            }
            Ok(Done::Endpoints(key, outcome)) => {
                let error = match outcome {
                    Ok(Some(endpoints)) => {
                        self.world.endpoints.apply(endpoints);
                        None
                    }
                    Ok(None) => {
                        self.world.endpoints.remove(&key);
                        None
                    }
                    Err(error) => Some(error),
                };
                self.settle(Work::Endpoints(key), error);
            }
            Ok(Done::Placement(key, outcome)) => self.settle(Work::Placement(key), outcome.err()),
            Ok(Done::Told) => {}
            Err(error) => tracing::error!(%error, "a controller's task failed"),
        }
    }

    /// The key is as it should be, or will be looked at again after a pause.
    fn settle(&mut self, work: Work, error: Option<ClientError>) {
        let topic = Topic::Failure(work.clone());
        let Some(error) = error else {
            self.told.news(topic, Vec::new());
            return self.queue.done(&work);
        };
        let pause = self.queue.failed(&work, Instant::now());
        tracing::warn!(?work, %error, ?pause, "will be tried again");
        // Losing a race is no failure that anybody needs to know of.
        if !error.is_conflict() {
            let (regarding, reason) = self.affected(&work);
            let findings = reason.map(|reason| Finding::warning(reason, error.to_string()));
            self.tell(topic, regarding, findings.into_iter().collect());
        }
    }

    /// The object on which a failure is told, and the reason's name (EPS-22, EPC-14).
    fn affected(&self, work: &Work) -> (Option<Regarding>, Option<&'static str>) {
        let key = work.key();
        let service = || self.world.services.get(key).map(Regarding::object);
        match work {
            Work::Slices(_) => (service(), Some("FailedToUpdateEndpointSlices")),
            Work::Endpoints(_) => match self.world.endpoints.get(key) {
                Some(current) => (Some(Regarding::object(current)), Some("FailedToUpdateEndpoint")),
                None => (service(), Some("FailedToCreateEndpoint")),
            },
            Work::Mirroring(_) | Work::Placement(_) => (None, None),
        }
    }

    /// Writes Events about what is new among the findings.
    fn tell(&mut self, topic: Topic, regarding: Option<Regarding>, findings: Vec<Finding>) {
        let (Topic::Findings(work) | Topic::Failure(work)) = &topic;
        let component = work.controller().name();
        let news = self.told.news(topic, findings);
        let (Some(regarding), false) = (regarding, news.is_empty()) else {
            return;
        };
        let client = self.client.clone();
        self.tasks.spawn(async move {
            post(client, component, regarding, news).await;
            Done::Told
        });
    }
}
