//! Status of a Pod: computed from its containers, written to the API, repaired if another client overwrites it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::object::{ObjectKey, PodCondition};
use jiff::Timestamp;
use serde::Deserialize;

use super::PodContext;
use super::storage_monitor::Eviction;
use crate::containers::Containers;
use crate::object::Pod;
use crate::pods::status::{self, Observation};
use crate::pods::status_writer::StatusWriter;
use crate::static_pods::mirror_pod::MirrorPod;

/// Status of one Pod.
pub(super) struct PodStatus {
    pub writer: StatusWriter,
    start_time: Timestamp,
    /// Conditions of the last status.
    conditions: Vec<PodCondition>,
    /// Eviction of the Pod, if it is evicted.
    pub eviction: Option<Eviction>,
    /// True if the Pod ends because of its `activeDeadlineSeconds`.
    pub is_past_deadline: bool,
}

impl PodStatus {
    /// Starts the writer. Times come from the current status of the Pod, if it has one.
    pub(super) fn new(context: &PodContext, mirror: Option<MirrorPod>, now: Timestamp) -> Self {
        let (client, pod) = (context.agent.client.clone(), &context.pod);
        let pace = Arc::clone(&context.agent.status_pace);
        let start_time = pod.status.start_time.as_ref();
        Self {
            writer: match mirror {
                Some(mirror) => mirror.start(client, &context.key),
                None => StatusWriter::start(client, &context.key, &pod.metadata.uid, pace),
            },
            start_time: start_time.and_then(|time| time.parse().ok()).unwrap_or(now),
            conditions: pod.status.conditions.clone(),
            eviction: None,
            is_past_deadline: false,
        }
    }

    /// Computes the status and passes it to the writer.
    pub(super) fn update(&mut self, context: &PodContext, containers: &Containers, pod_ips: &[IpAddr]) {
        let observation = Observation {
            containers,
            pod_ips,
            host_ips: &context.agent.host_ips,
            start_time: self.start_time,
            last_conditions: &self.conditions,
        };
        let mut status = status::generate(&context.pod, &observation, Timestamp::now());
        if let Some(Eviction { message, at }) = &self.eviction
            && !containers.is_any_running()
        {
            status::set_evicted(&mut status, message, *at);
        }
        if self.is_past_deadline && !containers.is_any_running() {
            status::set_deadline_exceeded(&mut status);
        }
        // `generate` writes a valid list of conditions.
        self.conditions = Vec::deserialize(&status["conditions"]).unwrap_or_default();
        self.writer.set(status);
    }

    /// Writes the status again if another client has overwritten it. For example, the node lifecycle controller marks
    /// the Pods of an unreachable node as not ready.
    pub(super) fn repair(&mut self, pod: &Pod, key: &ObjectKey) {
        if self.writer.repair(pod) {
            tracing::info!(pod = %key, "status overwritten by another client; written again");
            // An overwritten condition gets a new transition time.
            self.conditions.clone_from(&pod.status.conditions);
        }
    }

    /// Returns the time until the Pod reaches its `activeDeadlineSeconds`, zero behind it; `None` without a deadline.
    pub(super) fn time_to_deadline(&self, pod: &Pod) -> Option<Duration> {
        status::time_to_deadline(&pod.spec, self.start_time, Timestamp::now())
    }

    /// Returns true if the last status has the condition Ready.
    pub(super) fn is_ready(&self) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.any(|condition| condition.kind == "Ready" && condition.status == "True")
    }
}
