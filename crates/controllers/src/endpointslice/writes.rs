//! The writes of a Service's slices, collected and matched up.

use api::object::EndpointSlice;

use super::TRIGGER_TIME;
use super::reconcile::{Counts, Inputs, SliceWrite};
use super::slice::{is_owned, merged};

/// The writes of all families, before deletions and creations are matched up.
#[derive(Default)]
pub(super) struct Writes {
    pub(super) creates: Vec<EndpointSlice>,
    pub(super) updates: Vec<EndpointSlice>,
    pub(super) deletes: Vec<EndpointSlice>,
    /// What is counted of them; the slices that there are come last.
    pub(super) counts: Counts,
}

impl Writes {
    /// Deletes a slice, or uses it again for another content.
    pub(super) fn delete(&mut self, slice: &EndpointSlice) {
        self.counts.removed += slice.endpoints.len();
        self.deletes.push(slice.clone());
    }

    /// A slice to delete is re-used for one to create, if type and owner allow it (EPS-13); beyond that,
    /// a Service that is being deleted gets no new slices (EPS-15).
    pub(super) fn finish(mut self, inputs: &Inputs<'_>) -> Vec<SliceWrite> {
        let mut kept = Vec::new();
        for slice in self.deletes {
            let reusable = is_owned(&slice, inputs.service);
            let place = self
                .creates
                .iter()
                .position(|c| reusable && c.address_type == slice.address_type);
            match place {
                Some(index) => {
                    let wanted = self.creates.swap_remove(index);
                    self.updates.push(EndpointSlice {
                        metadata: merged(&slice, &wanted),
                        ..wanted
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
        // Endpoints appear before they vanish, so that no moment has fewer than there are.
        creates.chain(updates).chain(deletes).collect()
    }

    /// A family without endpoints keeps exactly one empty slice (EPS-10): the first of those that would
    /// go, or a new one.
    pub(super) fn keep_placeholder(&mut self, wanted: EndpointSlice, slices: &[&EndpointSlice]) {
        let kept = slices.iter().find(|slice| {
            slice.ports.is_empty()
                && slice.endpoints.is_empty()
                && slice.metadata.labels == wanted.metadata.labels
        });
        match kept {
            Some(kept) => self
                .deletes
                .retain(|slice| slice.metadata.name != kept.metadata.name),
            None => self.creates.push(wanted),
        }
    }
}
