//! A finding, with its code, severity, remedy and evidence.

use std::fmt;
use std::str::FromStr;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// Prefix of codes.
const CODE_PREFIX: &str = "PTL-";

/// Stable code of a finding, such as `PTL-0002`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(pub u16);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{CODE_PREFIX}{:04}", self.0)
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Text that is not a code. A retry does not help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidCode(pub String);

impl fmt::Display for InvalidCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a code such as {}", self.0, Code(2))
    }
}

impl std::error::Error for InvalidCode {}

impl FromStr for Code {
    type Err = InvalidCode;

    /// Reads `PTL-0002`, in any case, or the number alone.
    fn from_str(text: &str) -> Result<Self, InvalidCode> {
        let upper = text.trim().to_ascii_uppercase();
        let digits = upper.strip_prefix(CODE_PREFIX).unwrap_or(&upper);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits
            .parse()
            .ok()
            .filter(|_| is_number)
            .map(Self)
            .ok_or_else(|| InvalidCode(text.to_owned()))
    }
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Connections fail.
    Error,
    /// Some connections fail, or they reach the wrong backend.
    Warning,
    /// The state is as requested, but it can surprise users.
    Info,
}

impl Severity {
    /// Returns the name in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

/// Kind, namespace and name of an object. The namespace of cluster-scoped objects is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ObjectName {
    /// Kind, such as `Service`.
    pub kind: String,
    /// Namespace, or "".
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// A cause of failures of a Service, for all or some of its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Code of the rule.
    pub code: Code,
    /// Severity.
    pub severity: Severity,
    /// Object to change.
    pub object: ObjectName,
    /// Field of that object, such as `spec.ports[0].targetPort`; "" if the whole object is concerned.
    pub field: String,
    /// Fault, in a sentence with the names and values of this case.
    pub message: String,
    /// Step that removes the fault, usually a command.
    pub remedy: String,
    /// Observations behind the message, one each. They are not part of the JSON form.
    pub evidence: Vec<String>,
}

impl Finding {
    /// Returns the finding with one more observation.
    #[must_use]
    pub fn with_evidence(mut self, observation: impl Into<String>) -> Self {
        self.evidence.push(observation.into());
        self
    }
}

/// The JSON form has the fields `code`, `severity`, `object`, `field`, `message` and `remedy`.
impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Finding", 6)?;
        fields.serialize_field("code", &self.code)?;
        fields.serialize_field("severity", &self.severity)?;
        fields.serialize_field("object", &self.object)?;
        fields.serialize_field("field", &self.field)?;
        fields.serialize_field("message", &self.message)?;
        fields.serialize_field("remedy", &self.remedy)?;
        fields.end()
    }
}
