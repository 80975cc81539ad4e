//! Exported labels and annotations. They come from users of other clusters. The result omits invalid entries, because
//! the API server would reject a ServiceImport with one.

use api::names;
use api::object::Labels;

use crate::multicluster::names::{MANAGED_BY, MANAGED_BY_LABEL};

/// Maximum number of exported labels of an import, and of its exported annotations. Imports carry a few for selection
/// and display.
const ENTRIES_MAX: usize = 64;
/// Maximum number of bytes of the exported annotations of an import, a quarter of the limit of an object's annotations.
const ANNOTATION_BYTES_MAX: usize = 64 << 10;
/// Domain of labels that only controllers of multi-cluster Services set.
const RESERVED_DOMAIN: &str = "multicluster.kubernetes.io/";

/// Returns the labels of an import.
pub(super) fn labels(exported: &Labels) -> Labels {
    let is_valid = |(key, value): &(&String, &String)| {
        !key.starts_with(RESERVED_DOMAIN) && is_valid_key(key) && names::label_value(value).is_empty()
    };
    let mut labels: Labels = exported
        .iter()
        .filter(is_valid)
        .take(ENTRIES_MAX)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned());
    labels
}

/// Returns the annotations of an import.
pub(super) fn annotations(exported: &Labels) -> Labels {
    let mut bytes = 0;
    exported
        .iter()
        .filter(|(key, _)| is_valid_key(&key.to_lowercase()))
        .take(ENTRIES_MAX)
        .take_while(|(key, value)| {
            bytes += key.len() + value.len();
            bytes <= ANNOTATION_BYTES_MAX
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// Returns true if a key of a label or annotation is valid.
fn is_valid_key(key: &str) -> bool {
    names::qualified_name(key).is_empty()
}
