use api::kind::find;

use super::*;

/// Returns the stream name of a watch on all ServiceExports.
fn name(version: &str, labels: &str, fields: &str) -> String {
    let kind = find("multicluster.x-k8s.io", version, "serviceexports").unwrap();
    let options = ListOptions {
        label_selector: labels.to_owned(),
        field_selector: fields.to_owned(),
        ..ListOptions::default()
    };
    let prefix = kind.store_prefix(None);
    let target = Target::collection(kind, None);
    stream_name(&target, &prefix, &options, Form::PLAIN, IncludeObject::Metadata)
}

#[test]
fn watches_of_different_versions_or_selectors_share_no_lines() {
    assert_eq!(name("v1beta1", "a", "b"), name("v1beta1", "a", "b"));
    assert_ne!(name("v1beta1", "", ""), name("v1alpha1", "", ""));
    assert_ne!(name("v1beta1", "a\nb", ""), name("v1beta1", "a", "b"));
    assert_ne!(name("v1beta1", "a\" \"b", ""), name("v1beta1", "a", "b\" \""));
}
