//! The dependencies that all controllers share.

use std::sync::Arc;

use client::{Client, WallClock};
use reconcile::events::EventRecorder;

use crate::metrics::Metrics;
use crate::pod_watch::PodWatch;

/// The dependencies of a controller. Clones share metrics, the state of the Event recorder, and the watch of Pods.
#[derive(Clone)]
pub struct Environment {
    /// The client of the API server.
    pub client: Client,
    /// The time of day, for timestamps in objects.
    pub clock: WallClock,
    /// The recorder of Events.
    pub events: EventRecorder,
    /// The metrics of all controllers.
    pub metrics: Arc<Metrics>,
    /// The watch of Pods.
    pub pods: PodWatch,
}

impl Environment {
    /// Creates an environment for `client` with the system clock.
    pub fn new(client: Client) -> Self {
        Self::with_clock(client, WallClock::system())
    }

    /// Creates an environment for `client` with a clock of its own.
    pub fn with_clock(client: Client, clock: WallClock) -> Self {
        Self {
            events: EventRecorder::new(client.clone(), clock.clone()),
            pods: PodWatch::new(&client),
            client,
            clock,
            metrics: Arc::default(),
        }
    }
}
