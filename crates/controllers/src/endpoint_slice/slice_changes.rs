//! The result of a reconciliation of slices: writes, Events and counts.

use api::object::{EndpointSlice, ObjectMeta};
use reconcile::events::EventText;

/// A write of a slice.
#[derive(Clone, Debug, PartialEq)]
pub enum SliceWrite {
    /// Create a slice; the server generates its name from `generateName`.
    Create(EndpointSlice),
    /// Replace a slice with this resourceVersion.
    Update(EndpointSlice),
    /// Delete a slice, unless another client has written it since.
    Delete(ObjectMeta),
}

/// Counts for metrics (EPS-27).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Endpoints that are added to slices.
    pub added: usize,
    /// Endpoints that are removed from slices.
    pub removed: usize,
    /// Desired endpoints.
    pub endpoints: usize,
    /// Slices after the writes.
    pub slices: usize,
    /// Slices that perfectly filled slices would need.
    pub slices_desired: usize,
}

impl Counts {
    /// Adds the counts of another Service.
    pub(crate) fn add(&mut self, other: &Self) {
        self.endpoints += other.endpoints;
        self.slices += other.slices;
        self.slices_desired += other.slices_desired;
    }

    /// Subtracts counts that were added.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.endpoints -= other.endpoints;
        self.slices -= other.slices;
        self.slices_desired -= other.slices_desired;
    }
}

/// The result of a reconciliation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SliceChanges {
    /// The writes, in an order that keeps every lasting endpoint visible.
    pub writes: Vec<SliceWrite>,
    /// Pods that are omitted because their Node is unknown (EPS-08).
    pub pods_without_node: Vec<String>,
    /// Findings for Events on the Service (EPS-19).
    pub events: Vec<EventText>,
    /// Counts for metrics.
    pub counts: Counts,
}
