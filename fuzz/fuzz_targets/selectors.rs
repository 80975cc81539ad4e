//! Label and field selectors, parsed and matched with an object.
#![no_main]

use api::selector::{FieldSelector, LabelSelector};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = portolan_fuzz::kind_and_rest(input) else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let object = json!({"metadata": {"name": "a", "namespace": "b", "labels": {"app": "web", "tier": ""}}});
    if let Ok(labels) = LabelSelector::parse(text) {
        labels.matches_object(&object);
    }
    if let Ok(fields) = FieldSelector::parse(text, kind) {
        fields.matches_object(&object);
    }
});
