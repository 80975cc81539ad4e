//! Collection of a Service's slice writes, with reuse of slices.

use api::object::EndpointSlice;

use super::TRIGGER_TIME;
use super::inputs::Inputs;
use super::slice::{is_owned, merged_metadata};
use super::slice_changes::{Counts, SliceWrite};

/// The writes of all families before reuse.
#[derive(Default)]
pub(super) struct Writes {
    pub(super) creates: Vec<EndpointSlice>,
    pub(super) updates: Vec<EndpointSlice>,
    pub(super) deletes: Vec<EndpointSlice>,
    /// Counts for metrics; the number of slices is added last.
    pub(super) counts: Counts,
}

impl Writes {
    /// Deletes a slice, unless it can be reused.
    pub(super) fn delete(&mut self, slice: &EndpointSlice) {
        self.counts.removed += slice.endpoints.len();
        self.deletes.push(slice.clone());
    }

    /// Returns the writes. A slice to delete is reused for one to create if type and owner allow it (EPS-13).
    /// A Service that is being deleted gets no new slices (EPS-15).
    pub(super) fn finish(mut self, inputs: &Inputs<'_>) -> Vec<SliceWrite> {
        let mut kept = Vec::new();
        for slice in self.deletes {
            let reusable = is_owned(&slice, inputs.service);
            let place = self
                .creates
                .iter()
                .position(|created| reusable && created.address_type == slice.address_type);
            match place {
                Some(index) => {
                    let desired = self.creates.swap_remove(index);
                    self.updates.push(EndpointSlice {
                        metadata: merged_metadata(&slice, &desired),
                        ..desired
                    });
                }
                None => kept.push(slice),
            }
        }
        if inputs.service.metadata.deletion_timestamp.is_some() {
            self.creates.clear();
        }
        let stamp = |mut slice: EndpointSlice| {
            match inputs.trigger_time {
                Some(time) => slice
                    .metadata
                    .annotations
                    .insert(TRIGGER_TIME.to_owned(), time.to_owned()),
                None => slice.metadata.annotations.remove(TRIGGER_TIME),
            };
            slice
        };
        let deletes = kept.into_iter().map(|slice| SliceWrite::Delete(slice.metadata));
        let updates = self
            .updates
            .into_iter()
            .map(|slice| SliceWrite::Update(stamp(slice)));
        let creates = self
            .creates
            .into_iter()
            .map(|slice| SliceWrite::Create(stamp(slice)));
        // Creations come before deletions, so that no endpoint is missing in between.
        creates.chain(updates).chain(deletes).collect()
    }

    /// Keeps exactly one empty slice for a family without endpoints (EPS-10): the first that would be
    /// deleted, or a new one.
    pub(super) fn keep_placeholder(&mut self, desired: EndpointSlice, slices: &[&EndpointSlice]) {
        let kept = slices.iter().find(|slice| {
            slice.ports.is_empty()
                && slice.endpoints.is_empty()
                && slice.metadata.labels == desired.metadata.labels
        });
        match kept {
            Some(kept) => self
                .deletes
                .retain(|slice| slice.metadata.name != kept.metadata.name),
            None => self.creates.push(desired),
        }
    }
}
