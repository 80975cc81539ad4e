//! The type of a rule: code, documentation and checks.

use crate::finding::{Code, Finding};
use crate::subject::Subject;
use crate::world::World;

/// A rule: one cause of a Service that does not respond.
#[derive(Debug)]
pub(crate) struct Rule {
    /// Stable code.
    pub code: Code,
    /// Documentation as Markdown, with the title as its first line.
    pub documentation: &'static str,
    /// Root causes: a finding of one of these codes about the same Service suppresses the findings of this rule that
    /// are not more severe.
    pub explained_by: &'static [Code],
    /// Check of one Service.
    pub service: Option<fn(&Subject<'_>) -> Vec<Finding>>,
    /// Check of the objects that belong to no existing Service, or of observed nodes.
    pub cluster: Option<fn(&World) -> Vec<Finding>>,
}
