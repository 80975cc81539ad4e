//! The configuration file: read strictly, and written.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::configuration::{API_VERSION, Configuration, KIND};

/// Why a configuration file cannot be used. No retry helps; a change of the file does.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}", path = .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It is neither YAML nor JSON.
    #[error("{path} is not YAML: {reason}", path = .path.display())]
    Syntax {
        /// Which.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
    /// It is of another kind or version.
    #[error("{path} is of {found}; expected is kind {KIND} of {API_VERSION}", path = .path.display())]
    Kind {
        /// Which.
        path: PathBuf,
        /// What it says.
        found: String,
    },
    /// It has fields that there are not.
    #[error("{path} has unknown fields: {fields}", path = .path.display())]
    Unknown {
        /// Which.
        path: PathBuf,
        /// Their names.
        fields: String,
    },
    /// A field has a value of another type.
    #[error("{path}: {reason}", path = .path.display())]
    Value {
        /// Which.
        path: PathBuf,
        /// Which field, and what was expected.
        reason: String,
    },
}

/// Fields that are read and have no effect, with the reason; a value other than its zero is warned of.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("clientConnection.acceptContentTypes", "JSON is spoken"),
    ("clientConnection.qps", "watches need no limit"),
    ("clientConnection.burst", "watches need no limit"),
    ("enableProfiling", "there is no profiling server"),
    ("showHiddenMetricsForVersion", "no metric is hidden"),
    ("ipvs", "there is no ipvs mode"),
    ("winkernel", "it is for Windows"),
    ("windowsRunAsService", "it is for Windows"),
    ("portRange", "deprecated upstream"),
    ("nftables.masqueradeBit", "no packet mark is used"),
    ("nftables.minSyncPeriod", "changes come into force at once"),
    ("configSyncPeriod", "the API is watched"),
    (
        "logging",
        "--log-level and --logging-format choose what is logged, and how",
    ),
    (
        "featureGates",
        "the only gates are AllowServiceExternalIPs, ComponentStatusz and ComponentFlagz",
    ),
];
/// Values of such fields that upstream's tools write by default: no warning.
const USUAL: &[(&str, &str)] = &[
    ("clientConnection.qps", "5"),
    ("clientConnection.qps", "5.0"),
    ("clientConnection.burst", "10"),
    ("nftables.masqueradeBit", "14"),
    ("nftables.minSyncPeriod", "\"1s\""),
    ("configSyncPeriod", "\"15m0s\""),
    ("logging.flushFrequency", "\"5s\""),
    ("logging.flushFrequency", "5000000000"),
    ("logging.format", "\"text\""),
    ("ipvs.syncPeriod", "\"30s\""),
    ("featureGates.AllowServiceExternalIPs", "true"),
    ("featureGates.ComponentStatusz", "true"),
    ("featureGates.ComponentFlagz", "true"),
];

/// Reads a file; the configuration with defaults where it is silent, and what there is to warn of.
pub fn load(path: &Path) -> Result<(Configuration, Vec<String>), FileError> {
    let text = std::fs::read_to_string(path).map_err(|source| FileError::Read {
        path: path.to_owned(),
        source,
    })?;
    parse(path, &text)
}

/// The same from the file's text.
pub fn parse(path: &Path, text: &str) -> Result<(Configuration, Vec<String>), FileError> {
    let path = path.to_owned();
    let mut value: Value = match serde_saphyr::from_str(text) {
        Ok(value) => value,
        Err(error) => {
            let reason = error.to_string();
            return Err(FileError::Syntax { path, reason });
        }
    };
    drop_nulls(&mut value);
    let said = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or("none");
    if (said("apiVersion"), said("kind")) != (API_VERSION, KIND) {
        let found = format!("kind {} of {}", said("kind"), said("apiVersion"));
        return Err(FileError::Kind { path, found });
    }
    let known = serde_json::to_value(Configuration::default()).unwrap_or_default();
    let mut unknown = Vec::new();
    find_unknown("", &value, &known, &mut unknown);
    if !unknown.is_empty() {
        let fields = unknown.join(", ");
        return Err(FileError::Unknown { path, fields });
    }
    let warnings = WITHOUT_EFFECT
        .iter()
        .filter_map(|(field, reason)| warning(&value, field, reason))
        .collect();
    // What they are where the file is silent depends on the bind address.
    for field in ["healthzBindAddress", "metricsBindAddress"] {
        if let Some(fields) = value.as_object_mut() {
            fields.entry(field).or_insert_with(|| Value::from(""));
        }
    }
    let mut configuration: Configuration =
        serde_json::from_value(value).map_err(|error| FileError::Value {
            path,
            reason: error.to_string(),
        })?;
    configuration.complete();
    Ok((configuration, warnings))
}

/// The configuration as a file.
pub fn render(configuration: &Configuration) -> Result<String, serde_saphyr::SerializeError> {
    serde_saphyr::to_string(configuration)
}

/// Tools write nulls for what is not set.
fn drop_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, field| !field.is_null());
        fields.values_mut().for_each(drop_nulls);
    }
}

/// Fields whose own fields are not looked at: maps, and what is for others.
const OPEN: [&str; 3] = ["featureGates", "logging", "winkernel"];

fn find_unknown(prefix: &str, value: &Value, known: &Value, unknown: &mut Vec<String>) {
    let (Value::Object(fields), Value::Object(known)) = (value, known) else {
        return;
    };
    for (name, field) in fields {
        let path = match prefix {
            "" => name.clone(),
            prefix => format!("{prefix}.{name}"),
        };
        match known.get(name) {
            _ if OPEN.contains(&path.as_str()) => {}
            Some(known) => find_unknown(&path, field, known, unknown),
            None => unknown.push(path),
        }
    }
}

fn warning(value: &Value, field: &str, reason: &str) -> Option<String> {
    let found = value.pointer(&format!("/{}", field.replace('.', "/")))?;
    let is_usual = is_usual(field, found);
    (!is_usual).then(|| format!("field {field} has no effect: {reason}"))
}

/// Whether a value is what silence would mean.
fn is_usual(field: &str, value: &Value) -> bool {
    let is_zero = match value {
        Value::Object(fields) => {
            let of_field = |(name, value): (&String, &Value)| is_usual(&format!("{field}.{name}"), value);
            Map::iter(fields).all(of_field)
        }
        Value::Array(items) => items.is_empty(),
        Value::String(text) => matches!(text.as_str(), "" | "0" | "0s"),
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Null => true,
    };
    let text = value.to_string();
    is_zero || USUAL.contains(&(field, text.as_str()))
}

#[cfg(test)]
mod tests;
