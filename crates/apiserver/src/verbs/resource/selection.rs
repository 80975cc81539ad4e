//! Label and field selectors of lists and watches.

use std::borrow::Cow;
use std::collections::HashMap;

use api::selector::{FieldSelector, LabelSelector, SelectorError};
use serde::Deserialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::request::query::ListOptions;
use crate::request::route::Target;

/// A selection of objects of one kind.
pub(super) struct Selection {
    /// The prefix of all keys that can match.
    pub(super) prefix: String,
    labels: LabelSelector,
    fields: FieldSelector,
    /// The only name that matches, if the path or a field selector names one.
    name: Option<String>,
}

/// Labels of an object. Decoding only them is much faster than decoding the object.
#[derive(Default, Deserialize)]
#[serde(default)]
struct LabelledObject<'a> {
    #[serde(borrow)]
    metadata: LabelledMetadata<'a>,
}

/// Labels of an object.
#[derive(Default, Deserialize)]
#[serde(default)]
struct LabelledMetadata<'a> {
    #[serde(borrow)]
    labels: HashMap<Cow<'a, str>, Cow<'a, str>>,
}

impl Selection {
    /// Parses the selectors of a list or watch.
    pub(super) fn parse(target: &Target, options: &ListOptions) -> Result<Selection, Failure> {
        let refused = |error: SelectorError| Failure::bad_request(error.to_string());
        let labels = LabelSelector::parse(&options.label_selector).map_err(refused)?;
        let fields = FieldSelector::parse(&options.field_selector, target.kind).map_err(refused)?;
        let name = target
            .name
            .clone()
            .or_else(|| fields.exact("metadata.name").map(str::to_owned));
        let mut prefix = target.kind.store_prefix(target.namespace.as_deref());
        if let Some(name) = &name
            && (!target.kind.namespaced || target.namespace.is_some())
        {
            prefix.push_str(name);
        }
        Ok(Selection {
            prefix,
            labels,
            fields,
            name,
        })
    }

    /// Returns true if at most one object matches, which its key names.
    pub(super) fn is_single(&self) -> bool {
        self.name.is_some() && !self.prefix.ends_with('/')
    }

    /// Returns true if all objects below the prefix match.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.name.is_none()
    }

    /// Matches an object by its key and its bytes.
    pub(super) fn matches(&self, key: &str, bytes: &[u8]) -> bool {
        if let Some(name) = &self.name
            && key.rsplit('/').next() != Some(name)
        {
            return false;
        }
        if self.fields.is_empty() {
            return self.labels.is_empty()
                || serde_json::from_slice::<LabelledObject<'_>>(bytes).is_ok_and(|object| {
                    let labels = object.metadata.labels;
                    self.labels.matches(|key| labels.get(key).map(|value| &**value))
                });
        }
        serde_json::from_slice::<Value>(bytes)
            .is_ok_and(|object| self.labels.matches_object(&object) && self.fields.matches_object(&object))
    }
}
