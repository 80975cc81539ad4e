//! All data of a store, independent of its engine.

use crate::{Record, Revision};

/// All data of a store at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Newest revision.
    pub revision: Revision,
    /// Records, ascending by key.
    pub records: Vec<Record>,
}

impl Contents {
    /// Returns the number of sealed values; see [`crate::Transformer`].
    pub fn sealed_count(&self) -> usize {
        let sealed = |record: &&Record| crate::is_sealed(&record.value.bytes);
        self.records.iter().filter(sealed).count()
    }

    /// Returns the inconsistencies: keys out of order, impossible revisions, and offsets out of bounds.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for pair in self.records.windows(2) {
            if let [one, other] = pair
                && one.key >= other.key
            {
                faults.push(format!(
                    "the key {} does not precede the key {}",
                    one.key, other.key
                ));
            }
        }
        for record in &self.records {
            let Record {
                key,
                value,
                created,
                modified,
            } = record;
            if created > modified || *modified > self.revision {
                faults.push(format!(
                    "{key}: expected revisions up to {}, found creation at {created} and change at {modified}",
                    self.revision
                ));
            }
            if value.with_revision(*modified).is_none() {
                faults.push(format!("the offset of the revision of {key} is out of bounds"));
            }
        }
        faults
    }
}
