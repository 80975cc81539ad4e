//! The audit policy: recorded requests, and the level of each. File format (`audit.k8s.io/v1`), rules and messages
//! are upstream's, from `k8s.io/apiserver/pkg/audit/policy` and `…/apis/audit/validation`.

mod matching;

use api::field::{FieldError, FieldErrors, Path};
use api::names;
use serde::{Deserialize, Serialize};

pub(crate) use matching::Subject;

const GROUP: &str = "audit.k8s.io";
const KIND: &str = "Policy";
/// API versions that upstream accepts; their fields are equal.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// Audit level of a request. Each level includes the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Level {
    /// Records nothing.
    None,
    /// Records metadata: user, verb, object, time and status.
    Metadata,
    /// Records the request body.
    Request,
    /// Records the response body.
    RequestResponse,
}

impl Level {
    /// All levels, ascending.
    pub(crate) const ALL: [Level; 4] = [
        Level::None,
        Level::Metadata,
        Level::Request,
        Level::RequestResponse,
    ];

    /// Returns the name in policies and events.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::None => "None",
            Level::Metadata => "Metadata",
            Level::Request => "Request",
            Level::RequestResponse => "RequestResponse",
        }
    }

    fn parse(text: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == text)
    }
}

/// Stage of a request at which an event is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Stage {
    /// The request is authenticated and not yet processed.
    RequestReceived,
    /// The response headers are sent; only for long-running requests, such as watches.
    ResponseStarted,
    /// The response body is complete.
    ResponseComplete,
    /// The server panicked.
    Panic,
}

impl Stage {
    const ALL: [Stage; 4] = [
        Stage::RequestReceived,
        Stage::ResponseStarted,
        Stage::ResponseComplete,
        Stage::Panic,
    ];

    fn name(self) -> &'static str {
        match self {
            Stage::RequestReceived => "RequestReceived",
            Stage::ResponseStarted => "ResponseStarted",
            Stage::ResponseComplete => "ResponseComplete",
            Stage::Panic => "Panic",
        }
    }
}

/// Audit settings of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) level: Level,
    omitted: Vec<Stage>,
    /// True if `managedFields` are omitted from bodies.
    pub(crate) omits_managed_fields: bool,
}

impl Decision {
    /// Returns true if the policy omits this stage.
    pub(crate) fn omits(&self, stage: Stage) -> bool {
        self.omitted.contains(&stage)
    }
}

/// A validated audit policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditPolicy {
    /// Rules in order; the first match applies.
    rules: Vec<Rule>,
}

/// Failure to load an audit policy.
#[derive(Debug, thiserror::Error)]
pub enum AuditPolicyError {
    /// The policy is not YAML, or has unknown fields.
    #[error("failed decoding: {0}")]
    Form(String),
    /// The file contains another kind.
    #[error(
        "unknown group version field {api_version}, Kind={kind} in policy; expected {GROUP}/v1, Kind={KIND}"
    )]
    Kind {
        /// The `apiVersion` in the file.
        api_version: String,
        /// The `kind` in the file.
        kind: String,
    },
    /// Fields have invalid values.
    #[error("{}", join_with_commas(.0))]
    Values(FieldErrors),
    /// The policy has no rules.
    #[error("loaded illegal policy with 0 rules")]
    NoRules,
}

/// One rule, merged with the settings of the whole policy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    decision: Decision,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    non_resource_urls: Vec<String>,
}

/// Resources of an API group in a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct GroupResources {
    group: String,
    resources: Vec<String>,
    resource_names: Vec<String>,
}

/// The policy file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: serde::de::IgnoredAny,
    #[serde(default)]
    rules: Vec<FileRule>,
    #[serde(default)]
    omit_stages: Vec<String>,
    #[serde(default)]
    omit_managed_fields: bool,
}

/// A rule of the policy file.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct FileRule {
    level: String,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
}

impl AuditPolicy {
    /// Parses a policy in YAML or JSON. Unknown fields are errors, because an ignored field could disable a rule.
    ///
    /// # Errors
    /// See [`AuditPolicyError`].
    pub fn read(text: &str) -> Result<AuditPolicy, AuditPolicyError> {
        let file: File = serde_saphyr::from_str(text)
            .map_err(|error| AuditPolicyError::Form(error.without_snippet().to_string()))?;
        let version = file
            .api_version
            .strip_prefix(GROUP)
            .and_then(|rest| rest.strip_prefix('/'));
        if file.kind != KIND || !version.is_some_and(|version| VERSIONS.contains(&version)) {
            return Err(AuditPolicyError::Kind {
                api_version: file.api_version,
                kind: file.kind,
            });
        }
        let mut errors = FieldErrors::new();
        let omitted = parse_stages(&file.omit_stages, &Path::new("omitStages"), &mut errors);
        let mut rules = Vec::with_capacity(file.rules.len());
        for (index, rule) in file.rules.into_iter().enumerate() {
            let path = Path::new("rules").index(index);
            rules.push(rule.validate(&omitted, file.omit_managed_fields, &path, &mut errors));
        }
        if !errors.is_empty() {
            return Err(AuditPolicyError::Values(errors));
        }
        if rules.is_empty() {
            return Err(AuditPolicyError::NoRules);
        }
        Ok(AuditPolicy { rules })
    }
}

impl FileRule {
    fn validate(
        self,
        omitted_by_all: &[Stage],
        omits_managed_fields: bool,
        path: &Path,
        errors: &mut FieldErrors,
    ) -> Rule {
        let level = parse_level(&self.level, &path.child("level"), errors);
        let urls_path = path.child("nonResourceURLs");
        validate_urls(&self.non_resource_urls, &urls_path, errors);
        validate_resources(&self.resources, &path.child("resources"), errors);
        let mut omitted = parse_stages(&self.omit_stages, &path.child("omitStages"), errors);
        omitted.extend_from_slice(omitted_by_all);
        let has_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if !self.non_resource_urls.is_empty() && has_resources {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid(
                &urls_path,
                self.non_resource_urls.clone(),
                detail,
            ));
        }
        Rule {
            decision: Decision {
                level,
                omitted,
                omits_managed_fields: self.omit_managed_fields.unwrap_or(omits_managed_fields),
            },
            users: self.users,
            user_groups: self.user_groups,
            verbs: self.verbs,
            resources: self.resources,
            namespaces: self.namespaces,
            non_resource_urls: self.non_resource_urls,
        }
    }
}

fn parse_level(text: &str, path: &Path, errors: &mut FieldErrors) -> Level {
    if let Some(level) = Level::parse(text) {
        return level;
    }
    errors.push(match text {
        "" => FieldError::required(path, ""),
        text => FieldError::not_supported(path, text, &Level::ALL.map(Level::name)),
    });
    Level::None
}

fn parse_stages(texts: &[String], path: &Path, errors: &mut FieldErrors) -> Vec<Stage> {
    let mut stages = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        match Stage::ALL.into_iter().find(|stage| stage.name() == text) {
            Some(stage) => stages.push(stage),
            None => {
                let detail = format!("allowed stages are {}", Stage::ALL.map(Stage::name).join(","));
                errors.push(FieldError::invalid(&path.index(index), text.as_str(), detail));
            }
        }
    }
    stages
}

fn validate_urls(urls: &[String], path: &Path, errors: &mut FieldErrors) {
    for (index, url) in urls.iter().enumerate().filter(|(_, url)| *url != "*") {
        let path = path.index(index);
        if !url.starts_with('/') {
            let detail = "non-resource URL rules must begin with a '/' character";
            errors.push(FieldError::invalid(&path, url.as_str(), detail));
        }
        let before_last = url
            .char_indices()
            .next_back()
            .map_or("", |(last, _)| &url[..last]);
        if before_last.contains('*') {
            let detail = "non-resource URL wildcards '*' must be the final character of the rule";
            errors.push(FieldError::invalid(&path, url.as_str(), detail));
        }
    }
}

fn validate_resources(groups: &[GroupResources], path: &Path, errors: &mut FieldErrors) {
    for group in groups {
        let problems = match group.group.as_str() {
            "" => Vec::new(),
            name => names::dns_subdomain(name),
        };
        if !problems.is_empty() {
            let path = path.child("group");
            errors.push(FieldError::invalid(
                &path,
                group.group.as_str(),
                problems.join(","),
            ));
        }
        if !group.resource_names.is_empty() && group.resources.is_empty() {
            let path = path.child("resourceNames");
            let detail = "using resourceNames requires at least one resource";
            errors.push(FieldError::invalid(&path, group.resource_names.clone(), detail));
        }
    }
}

fn join_with_commas(errors: &FieldErrors) -> String {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

#[cfg(test)]
mod tests;
