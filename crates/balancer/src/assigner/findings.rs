//! Annotations of a Service that have an error or no effect, for its condition and its Events.

use crate::annotations::{AnnotationError, EDGE_CLASS, Reading};
use client::events::EventText;

/// Maximum number of errors with an Event each; the condition contains all.
const EVENTS_MAX: usize = 8;
/// Maximum length of the condition's message; the API allows 32,768 bytes.
const TEXT_BYTES_MAX: usize = 4_096;

/// Annotations of a Service that have an error or no effect.
#[derive(Debug, Default)]
pub(super) struct Findings {
    errors: Vec<AnnotationError>,
    /// Names of annotations without effect, grouped by reason; empty if there are no such annotations.
    without_effect: String,
}

impl Findings {
    /// Returns the findings of a reading. `is_edge_missing` adds an error if annotations need the edge, which no node
    /// runs.
    pub(super) fn new(reading: Reading, is_edge_missing: bool) -> Self {
        let mut errors = reading.errors;
        if is_edge_missing {
            errors.push(AnnotationError::Incomplete(
                "annotations need the edge, and no node runs it: start `portolan balancer` with --edge"
                    .to_owned(),
            ));
        }
        let edge_only = format!("effective only with `loadBalancerClass: {EDGE_CLASS}`");
        let unknown = reading.unknown.iter().map(String::as_str).collect();
        let groups = [
            ("without effect outside of the cloud", reading.cloud_only),
            (edge_only.as_str(), reading.edge_only),
            ("unknown", unknown),
        ];
        let groups = groups.iter().filter(|(_, names)| !names.is_empty());
        let texts: Vec<String> = groups
            .map(|(reason, names)| format!("{reason}: {}", names.join(", ")))
            .collect();
        Self {
            errors,
            without_effect: texts.join("; "),
        }
    }

    /// Returns the message of the condition; empty without findings.
    pub(super) fn text(&self) -> String {
        let errors = self.errors.iter().map(AnnotationError::to_string);
        let without_effect = Some(&self.without_effect).filter(|text| !text.is_empty());
        let parts: Vec<String> = errors.chain(without_effect.cloned()).collect();
        bounded(parts.join("; "))
    }

    /// Events about the findings.
    pub(super) fn events(&self) -> Vec<EventText> {
        let errors = self.errors.iter().take(EVENTS_MAX);
        let errors = errors.map(|error| EventText::warning("InvalidAnnotation", error.to_string()));
        let without_effect = (!self.without_effect.is_empty())
            .then(|| EventText::normal("AnnotationsWithoutEffect", self.without_effect.as_str()));
        errors.chain(without_effect).collect()
    }
}

/// Returns a text for the message of a condition, of which the end is omitted if it is too long. Values of annotations
/// have up to 256 KiB, and the API server does not store a Service above its limit.
pub(super) fn bounded(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
        text.push_str(" …");
    }
    text
}
