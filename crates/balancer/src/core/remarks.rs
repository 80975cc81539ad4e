//! What is said of annotations that are not in force: once, and again only when it changes.

use super::Told;
use super::judge::normal;
use crate::annotations::{EDGE_CLASS, Fault, Reading};

/// Most mistakes that have an Event each; the condition has them all.
const EVENTS_MAX: usize = 8;
/// Longest text of the condition; the API takes 32,768 bytes.
const TEXT_BYTES_MAX: usize = 4_096;

/// What there is to say about the annotations of a Service.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    faults: Vec<Fault>,
    without_effect: String,
}

impl Remarks {
    /// What a reading leaves to be said.
    pub(super) fn of(reading: Reading, is_edge_missing: bool) -> Self {
        let mut faults = reading.faults;
        if is_edge_missing {
            faults.push(Fault::Incomplete(
                "annotations ask for what the edge does, and no node runs it: start `portolan balancer` with --edge"
                    .to_owned(),
            ));
        }
        let without_edge = format!("in force with `loadBalancerClass: {EDGE_CLASS}` alone");
        let unknown = reading.unknown.iter().map(String::as_str).collect();
        let kinds = [
            ("without meaning outside of the cloud", reading.without_meaning),
            (without_edge.as_str(), reading.without_edge),
            ("not known", unknown),
        ];
        let named = kinds.iter().filter(|(_, names)| !names.is_empty());
        let texts: Vec<String> = named
            .map(|(kind, names)| format!("{kind}: {}", names.join(", ")))
            .collect();
        Self {
            faults,
            without_effect: texts.join("; "),
        }
    }

    /// All of it, for the condition; "" if there is nothing to say.
    pub(super) fn text(&self) -> String {
        let faults = self.faults.iter().map(Fault::to_string);
        let rest = Some(&self.without_effect).filter(|text| !text.is_empty());
        let parts: Vec<String> = faults.chain(rest.cloned()).collect();
        let mut text = parts.join("; ");
        if text.len() > TEXT_BYTES_MAX {
            let end = (0..=TEXT_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or(0));
            text.push_str(" …");
        }
        text
    }

    /// The Events.
    pub(super) fn told(&self) -> Vec<Told> {
        let faults = self.faults.iter().take(EVENTS_MAX).map(|fault| Told {
            is_warning: true,
            reason: "InvalidAnnotation",
            message: fault.to_string(),
        });
        let rest = (!self.without_effect.is_empty())
            .then(|| normal("AnnotationsWithoutEffect", self.without_effect.as_str()));
        faults.chain(rest).collect()
    }
}
