//! A check of metrics texts, for the tests of the components that write them.

use std::collections::HashSet;

/// A fault in a metrics text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMetrics {
    /// A family has no help text.
    #[error("expected '# HELP {0}' with a text above '# TYPE {0}', found none")]
    HelpMissing(String),
    /// A family appears twice.
    #[error("expected one '# TYPE {0}', found two")]
    Repeated(String),
    /// A sample is not below the `# TYPE` line of its family.
    #[error("expected the sample '{0}' below the '# TYPE' line of its family")]
    Misplaced(String),
}

/// Checks that each family has a help text and a type, appears once, and is followed by its own samples only.
///
/// # Errors
///
/// Returns the first fault in the text.
pub fn validate(text: &str) -> Result<(), InvalidMetrics> {
    let mut seen = HashSet::new();
    let mut helped = None;
    let mut family = None;
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = help
                .split_once(' ')
                .and_then(|(name, text)| (!text.is_empty()).then_some(name));
        } else if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, metric_type) = declared.split_once(' ').unwrap_or((declared, ""));
            if helped != Some(name) {
                return Err(InvalidMetrics::HelpMissing(name.to_owned()));
            }
            if !seen.insert(name) {
                return Err(InvalidMetrics::Repeated(name.to_owned()));
            }
            family = Some((name, metric_type));
        } else if !family.is_some_and(|(name, metric_type)| is_sample_of(line, name, metric_type)) {
            return Err(InvalidMetrics::Misplaced(line.to_owned()));
        }
    }
    Ok(())
}

fn is_sample_of(line: &str, family: &str, metric_type: &str) -> bool {
    let name = line.split(['{', ' ']).next().unwrap_or_default();
    if metric_type == "histogram" {
        ["_bucket", "_sum", "_count"]
            .iter()
            .any(|suffix| name.strip_suffix(suffix) == Some(family))
    } else {
        name == family
    }
}

#[cfg(test)]
mod tests;
