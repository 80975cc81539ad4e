//! The configuration file: parsing and rendering. Like upstream, parsing is strict first, and then lenient with a
//! warning (KPC-01).

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use serde_saphyr::DuplicateKeyPolicy;

use super::v1alpha1::{API_VERSION, KIND, KubeProxyConfiguration};

/// Reasons why a configuration file is rejected. No retry helps; a change of the file does.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file is unreadable.
    #[error("cannot read {path}: {source}", path = .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system call.
        source: std::io::Error,
    },
    /// The file is neither YAML nor JSON.
    #[error("{path}: expected YAML or JSON: {reason}", path = .path.display())]
    Syntax {
        /// Path of the file.
        path: PathBuf,
        /// Position and cause.
        reason: String,
    },
    /// The file has another kind or version.
    #[error("{path}: expected kind {KIND} of {API_VERSION}, found {found}", path = .path.display())]
    Kind {
        /// Path of the file.
        path: PathBuf,
        /// Kind and version of the file.
        found: String,
    },
    /// A field has a value of another type.
    #[error("{path}: {reason}", path = .path.display())]
    Value {
        /// Path of the file.
        path: PathBuf,
        /// The field and the expected type.
        reason: String,
    },
}

/// Fields without effect, with the reason. A value that differs from zero and from upstream's default causes a warning.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("clientConnection.acceptContentTypes", "the client uses JSON"),
    (
        "clientConnection.qps",
        "the client only watches and has no rate limit",
    ),
    (
        "clientConnection.burst",
        "the client only watches and has no rate limit",
    ),
    ("enableProfiling", "there is no profiling server"),
    ("showHiddenMetricsForVersion", "no metric is hidden"),
    ("winkernel", "it applies to Windows only"),
    ("windowsRunAsService", "it applies to Windows only"),
    ("portRange", "deprecated upstream"),
    ("nftables.masqueradeBit", "no packet mark is used"),
    ("nftables.minSyncPeriod", "changes are applied at once"),
    ("configSyncPeriod", "the API is watched"),
    ("logging", "use --log-level and --logging-format"),
    (
        "featureGates",
        "the only gates are AllowServiceExternalIPs, ComponentStatusz and ComponentFlagz",
    ),
];
/// Values of ignored fields that upstream's tools write by default. They cause no warning.
const DEFAULT_VALUES: &[(&str, &str)] = &[
    ("clientConnection.qps", "5"),
    ("clientConnection.qps", "5.0"),
    ("clientConnection.burst", "10"),
    ("nftables.masqueradeBit", "14"),
    ("nftables.minSyncPeriod", "\"1s\""),
    ("configSyncPeriod", "\"15m0s\""),
    ("logging.flushFrequency", "\"5s\""),
    ("logging.flushFrequency", "5000000000"),
    ("logging.format", "\"text\""),
    ("featureGates.AllowServiceExternalIPs", "true"),
    ("featureGates.ComponentStatusz", "true"),
    ("featureGates.ComponentFlagz", "true"),
];

/// Reads a file. Returns the configuration with defaults filled in, and warnings about fields without effect.
///
/// # Errors
///
/// A [`FileError`] if the file is unreadable or is not a valid `KubeProxyConfiguration`.
pub fn load(path: &Path) -> Result<(KubeProxyConfiguration, Vec<String>), FileError> {
    let text = std::fs::read_to_string(path).map_err(|source| FileError::Read {
        path: path.to_owned(),
        source,
    })?;
    parse(path, &text)
}

/// Parses the text of a file; `path` appears in errors only. Unknown and duplicate fields cause one warning, because
/// files of older and newer versions have fields that this version lacks.
///
/// # Errors
///
/// A [`FileError`] if the text is not a valid `KubeProxyConfiguration`.
pub fn parse(path: &Path, text: &str) -> Result<(KubeProxyConfiguration, Vec<String>), FileError> {
    let path = path.to_owned();
    let (mut value, duplicate) = match read_yaml(text) {
        Ok(read) => read,
        Err(reason) => return Err(FileError::Syntax { path, reason }),
    };
    drop_nulls(&mut value);
    let text_of = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or("none");
    if (text_of("apiVersion"), text_of("kind")) != (API_VERSION, KIND) {
        let found = format!("kind {} of {}", text_of("kind"), text_of("apiVersion"));
        return Err(FileError::Kind { path, found });
    }
    let known = serde_json::to_value(KubeProxyConfiguration::default()).unwrap_or_default();
    let mut unknown = Vec::new();
    find_unknown("", &value, &known, &mut unknown);
    let without_effect = WITHOUT_EFFECT
        .iter()
        .filter_map(|(field, reason)| warning(&value, field, reason));
    let warnings = lenience_warning(&unknown, duplicate.as_deref())
        .into_iter()
        .chain(without_effect)
        .collect();
    // Their defaults depend on the bind address, so serde must not fill them in.
    for field in ["healthzBindAddress", "metricsBindAddress"] {
        if let Some(fields) = value.as_object_mut() {
            fields.entry(field).or_insert_with(|| Value::from(""));
        }
    }
    let mut configuration: KubeProxyConfiguration =
        serde_json::from_value(value).map_err(|error| FileError::Value {
            path,
            reason: error.to_string(),
        })?;
    configuration.set_defaults();
    Ok((configuration, warnings))
}

/// Parses YAML. If a mapping has a key twice, the last value counts, and the description of the first such key is
/// returned.
fn read_yaml(text: &str) -> Result<(Value, Option<String>), String> {
    let error = match serde_saphyr::from_str(text) {
        Ok(value) => return Ok((value, None)),
        Err(error) => error,
    };
    let error = error.without_snippet();
    let serde_saphyr::Error::DuplicateMappingKey { key, location } = error else {
        return Err(error.to_string());
    };
    let key = key.as_deref().unwrap_or("a key");
    let duplicate = format!("{key} again in line {}", location.line());
    let lenient = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    };
    let value = serde_saphyr::from_str_with_options(text, lenient).map_err(|error| error.to_string())?;
    Ok((value, Some(duplicate)))
}

/// Returns the warning of a file that is not valid strictly.
fn lenience_warning(unknown: &[String], duplicate: Option<&str>) -> Option<String> {
    let ignored = (!unknown.is_empty()).then(|| format!("unknown fields ignored: {}", unknown.join(", ")));
    let replaced = duplicate.map(|key| format!("duplicate fields, the last value applies: {key}"));
    let parts: Vec<String> = ignored.into_iter().chain(replaced).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Renders the configuration as YAML.
///
/// # Errors
///
/// An error of the serializer.
pub fn render(configuration: &KubeProxyConfiguration) -> Result<String, serde_saphyr::SerializeError> {
    serde_saphyr::to_string(configuration)
}

/// Drops null fields, which upstream's tools write for unset values.
fn drop_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, field| !field.is_null());
        fields.values_mut().for_each(drop_nulls);
    }
}

/// Fields whose content is not checked: maps, and structures without effect here.
const UNCHECKED: [&str; 3] = ["featureGates", "logging", "winkernel"];

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
            _ if UNCHECKED.contains(&path.as_str()) => {}
            Some(known) => find_unknown(&path, field, known, unknown),
            None => unknown.push(path),
        }
    }
}

fn warning(value: &Value, field: &str, reason: &str) -> Option<String> {
    let found = value.pointer(&format!("/{}", field.replace('.', "/")))?;
    (!is_default_or_zero(field, found)).then(|| format!("field {field} has no effect: {reason}"))
}

/// Returns true if a value equals the default, zero, or the value that upstream's tools write.
fn is_default_or_zero(field: &str, value: &Value) -> bool {
    let is_zero = match value {
        Value::Object(fields) => {
            let is_default =
                |(name, value): (&String, &Value)| is_default_or_zero(&format!("{field}.{name}"), value);
            Map::iter(fields).all(is_default)
        }
        Value::Array(items) => items.is_empty(),
        Value::String(text) => matches!(text.as_str(), "" | "0" | "0s"),
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Null => true,
    };
    let text = value.to_string();
    is_zero || DEFAULT_VALUES.contains(&(field, text.as_str()))
}

#[cfg(test)]
mod tests;
