//! The dependencies that all controllers share.

use std::sync::Arc;

use client::{Client, WallClock};
use reconcile::events::EventRecorder;

use crate::metrics::Metrics;

/// The dependencies of a controller. Clones share metrics and the state of the Event recorder.
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
            client,
            clock,
            metrics: Arc::default(),
        }
    }
}
