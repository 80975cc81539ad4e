//! Findings as text: a summary first, then each finding with its remedy.

use explain::{Finding, Scope, Severity, World, documentation_of};

use super::source::Source;
use crate::output::printable;

/// Maximum number of kinds that are not served and named; more are counted. A server without other APIs lacks many.
const NAMED_KINDS_MAX: usize = 3;

/// Returns the lines about kinds that could not be read.
pub(super) fn unread_kinds(source: &Source) -> String {
    let line = |reason: &str, kinds: &[&str]| match kinds {
        [] => String::new(),
        kinds => format!(
            "{reason}, so nothing is reported that depends on them: {}\n",
            kinds.join(", ")
        ),
    };
    let not_served = match source.not_served.len() {
        count if count > NAMED_KINDS_MAX => {
            format!("{count} kinds are not served, so nothing is reported that depends on them\n")
        }
        _ => line("Not served", &source.not_served),
    };
    line("Not allowed to read", &source.forbidden) + &not_served
}

/// Returns the subject of the examination, for the summary.
pub(super) fn subject(world: &World, scope: &Scope) -> String {
    match scope {
        Scope::All => format!("{} objects", world.len()),
        Scope::Service { namespace, name } => format!("Service {namespace}/{name}"),
    }
}

/// Renders the findings. `absent` has the lines about kinds that could not be read.
pub(super) fn render(subject: &str, findings: &[Finding], absent: &str) -> String {
    let mut text = summary(subject, findings);
    text.push_str(absent);
    for finding in findings {
        text.push('\n');
        text.push_str(&details(finding));
    }
    if let Some(first) = findings.first() {
        text.push_str(&format!(
            "\n`portolan explain {}` describes the first finding.\n",
            first.code
        ));
    }
    text
}

fn summary(subject: &str, findings: &[Finding]) -> String {
    let Some(first) = findings.first() else {
        return format!("{subject}: no findings\n");
    };
    let count = |severity: Severity, name: &str| {
        let count = findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count();
        let plural = if count == 1 || severity == Severity::Info {
            ""
        } else {
            "s"
        };
        (count > 0).then(|| format!("{count} {name}{plural}"))
    };
    let counts: Vec<String> = [
        count(Severity::Error, "error"),
        count(Severity::Warning, "warning"),
        count(Severity::Info, "information"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let title = documentation_of(first.code).map_or("", |entry| entry.title);
    format!(
        "{subject}: {}\nMost likely cause: {title} ({}, {})\n",
        counts.join(", "),
        first.code,
        first.object
    )
}

fn details(finding: &Finding) -> String {
    let mut text = format!(
        "{} {}  {}\n  {}\n",
        finding.code,
        finding.severity.as_str(),
        finding.object,
        printable(&finding.message)
    );
    if !finding.field.is_empty() {
        text.push_str(&format!("  Field:  {}\n", printable(&finding.field)));
    }
    for observation in &finding.evidence {
        text.push_str(&format!("  Seen:   {}\n", printable(observation)));
    }
    text.push_str(&format!("  Remedy: {}\n", printable(&finding.remedy)));
    text
}

#[cfg(test)]
mod tests;
