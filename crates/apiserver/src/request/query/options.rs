//! The options of each verb.

use api::decode::{self, Format};
use api::field::{FieldError, FieldErrors, Path};
use api::tree::{child, items, text_if_set};
use http::header::USER_AGENT;
use http::{HeaderMap, StatusCode};
use serde_json::Value;
use store::Revision;

use super::Query;
use crate::access::audit::Recorder;
use crate::access::authentication::Identity;
use crate::failure::Failure;

/// Handling of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Drops the fields.
    Ignore,
    /// Drops the fields, with a `Warning` header each.
    Warn,
    /// Rejects the request.
    Strict,
}

/// Maximum length of a field manager's name.
const MANAGER_BYTES_MAX: usize = 128;

/// Options of create, update and patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteOptions<'q> {
    /// True if nothing is stored.
    pub(crate) dry_run: bool,
    /// Handling of unknown and duplicate fields.
    pub(crate) field_validation: FieldValidation,
    /// Field manager: the parameter `fieldManager`, or the name of the client program.
    pub(crate) manager: &'q str,
    /// True if apply takes over fields of other managers. Only apply accepts the parameter.
    pub(crate) force: Option<bool>,
    /// User of the request; `None` for writes of the server itself.
    pub(crate) requester: Option<&'q Identity>,
    /// Recorder of the decisions about the request.
    pub(crate) recorder: Recorder<'q>,
}

impl<'q> WriteOptions<'q> {
    /// Reads options of a create or an update. `options_kind` names them in errors, for example `CreateOptions`.
    ///
    /// # Errors
    /// 422 for invalid values.
    pub(crate) fn read(
        query: &'q Query,
        headers: &'q HeaderMap,
        options_kind: &str,
    ) -> Result<WriteOptions<'q>, Failure> {
        WriteOptions::checked(query, headers, options_kind, FieldErrors::new())
    }

    /// Reads options of a patch or an apply.
    ///
    /// # Errors
    /// 422 for invalid values, and for an apply without field manager.
    pub(crate) fn read_patch(
        query: &'q Query,
        headers: &'q HeaderMap,
        is_apply: bool,
    ) -> Result<WriteOptions<'q>, Failure> {
        let mut errors = FieldErrors::new();
        if is_apply && query.text("fieldManager").is_empty() {
            let path = Path::new("fieldManager");
            errors.push(FieldError::required(&path, "is required for apply patch"));
        }
        if !is_apply && query.flag("force").is_some() {
            let detail = "may not be specified for non-apply patch";
            errors.push(FieldError::forbidden(&Path::new("force"), detail));
        }
        WriteOptions::checked(query, headers, "PatchOptions", errors)
    }

    fn checked(
        query: &'q Query,
        headers: &'q HeaderMap,
        options_kind: &str,
        mut errors: FieldErrors,
    ) -> Result<WriteOptions<'q>, Failure> {
        let manager = match query.text("fieldManager") {
            "" => client_name(headers),
            manager => {
                check_manager(manager, &mut errors);
                manager
            }
        };
        let dry_run = read_dry_run(query.all("dryRun"), &mut errors);
        let field_validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let path = Path::new("fieldValidation");
                errors.push(FieldError::not_supported(
                    &path,
                    other,
                    &["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Warn
            }
        };
        refuse(options_kind, &errors)?;
        Ok(WriteOptions {
            dry_run,
            field_validation,
            manager,
            force: query.flag("force"),
            requester: None,
            recorder: Recorder::NONE,
        })
    }

    /// Sets the user of the request, and the recorder of its audit annotations.
    pub(crate) fn by(self, requester: &'q Identity, recorder: Recorder<'q>) -> WriteOptions<'q> {
        WriteOptions {
            requester: Some(requester),
            recorder,
            ..self
        }
    }
}

fn check_manager(manager: &str, errors: &mut FieldErrors) {
    let path = Path::new("fieldManager");
    if manager.len() > MANAGER_BYTES_MAX {
        errors.push(FieldError::too_long(&path, MANAGER_BYTES_MAX));
    }
    for (at, letter) in manager.char_indices().filter(|(_, letter)| letter.is_control()) {
        let fault = format!("invalid character U+{:04X} (at position {at})", u32::from(letter));
        errors.push(FieldError::invalid(&path, manager, fault));
    }
}

/// Returns the name of the client program: `kubectl` of `kubectl/v1.32.4 (linux/amd64)`.
fn client_name(headers: &HeaderMap) -> &str {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    let name = agent.and_then(|text| text.split('/').next()).unwrap_or_default();
    // `to_str` returns visible ASCII only, so every index is a boundary.
    name.get(..MANAGER_BYTES_MAX).unwrap_or(name)
}

/// Deletion of an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// Dependents stay, without owner reference.
    Orphan,
    /// The garbage collector deletes dependents after the object.
    Background,
    /// The garbage collector deletes dependents before the object.
    Foreground,
}

/// Options of delete and deletecollection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    /// True if nothing is stored.
    pub(crate) dry_run: bool,
    /// Grace period; `None` for the default of the kind.
    pub(crate) grace_period_seconds: Option<i64>,
    /// Deletion of dependents; `None` for the default of the kind.
    pub(crate) propagation: Option<Propagation>,
    /// Set by the deprecated option `orphanDependents: false`.
    pub(crate) is_old_cascade: bool,
    /// Precondition: UID of the object.
    pub(crate) uid: Option<String>,
    /// Precondition: resourceVersion of the object.
    pub(crate) resource_version: Option<String>,
}

impl DeleteOptions {
    /// Reads the options from the body, or from the query without a body.
    ///
    /// # Errors
    /// 400 for an invalid body, 422 for invalid values.
    pub(crate) fn read(query: &Query, body: &[u8], format: Format) -> Result<DeleteOptions, Failure> {
        let decoded = decode::decode_delete_options(body, format)
            .map_err(|error| Failure::of_decode(&error))?
            .object;
        let mut errors = FieldErrors::new();
        let has_body = !body.is_empty();
        // As upstream: a body replaces the query.
        let dry_run = if has_body {
            let dry_runs = items(&decoded, "dryRun").iter().filter_map(Value::as_str);
            read_dry_run(dry_runs, &mut errors)
        } else {
            read_dry_run(query.all("dryRun"), &mut errors)
        };
        let grace = if has_body {
            decoded.get("gracePeriodSeconds").and_then(Value::as_i64)
        } else {
            read_integer(query, "gracePeriodSeconds")?
        };
        if grace.is_some_and(|seconds| seconds < 0) {
            // As upstream.
            tracing::debug!("negative grace period changed to one second");
        }
        let policy = if has_body {
            text_if_set(&decoded, "propagationPolicy")
        } else {
            query.all("propagationPolicy").next()
        };
        let orphan = match decoded.get("orphanDependents").and_then(Value::as_bool) {
            None if !has_body => query.flag("orphanDependents"),
            given => given,
        };
        let propagation = read_propagation(policy, orphan, &mut errors);
        refuse("DeleteOptions", &errors)?;
        let preconditions = child(&decoded, "preconditions");
        // As upstream: the query has preconditions under their own names, and an empty one is none.
        let given = |field| {
            let query_value = || Some(query.text(field)).filter(|value| !value.is_empty());
            let value = if has_body {
                text_if_set(preconditions, field)
            } else {
                query_value()
            };
            value.map(str::to_owned)
        };
        Ok(DeleteOptions {
            dry_run,
            grace_period_seconds: grace.map(|seconds| if seconds < 0 { 1 } else { seconds }),
            propagation,
            is_old_cascade: orphan == Some(false),
            uid: given("uid"),
            resource_version: given("resourceVersion"),
        })
    }
}

fn read_propagation(
    policy: Option<&str>,
    orphan: Option<bool>,
    errors: &mut FieldErrors,
) -> Option<Propagation> {
    let path = Path::new("propagationPolicy");
    if let Some(policy) = policy
        && orphan.is_some()
    {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid(&path, policy, detail));
    }
    match (policy, orphan) {
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (None, None) => None,
        (Some(other), _) => {
            let allowed = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported(&path, other, &allowed));
            None
        }
    }
}

/// Meaning of the resourceVersion of a list or watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    /// Exactly this version.
    Exact,
    /// This version or a newer one.
    NotOlderThan,
}

/// Options of list and watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListOptions {
    /// Label selector as text.
    pub(crate) label_selector: String,
    /// Field selector as text.
    pub(crate) field_selector: String,
    /// Number of objects in one response.
    pub(crate) limit: Option<usize>,
    /// Continue token of the page before.
    pub(crate) continue_token: String,
    /// Requested version; 0 is any.
    pub(crate) version: Option<Revision>,
    /// Meaning of the requested version.
    pub(crate) version_match: Option<VersionMatch>,
    /// True for a watch.
    pub(crate) watch: bool,
    /// True if the client accepts bookmarks.
    pub(crate) bookmarks: bool,
    /// True if a watch begins with all objects.
    pub(crate) send_initial_events: Option<bool>,
    /// Duration of the watch.
    pub(crate) timeout_seconds: Option<u64>,
}

impl ListOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// 400 or 422 for invalid values.
    pub(crate) fn read(query: &Query) -> Result<ListOptions, Failure> {
        let version_match = match query.text("resourceVersionMatch") {
            "Exact" => Some(VersionMatch::Exact),
            "NotOlderThan" => Some(VersionMatch::NotOlderThan),
            _ => None,
        };
        let mut options = ListOptions {
            label_selector: query.text("labelSelector").to_owned(),
            field_selector: query.text("fieldSelector").to_owned(),
            limit: read_integer(query, "limit")?
                .filter(|&number| number > 0)
                .and_then(|number| usize::try_from(number).ok()),
            continue_token: query.text("continue").to_owned(),
            version: None,
            version_match,
            watch: query.flag("watch").unwrap_or(false),
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            send_initial_events: query.flag("sendInitialEvents"),
            timeout_seconds: read_integer(query, "timeoutSeconds")?
                .and_then(|seconds| u64::try_from(seconds).ok()),
        };
        let version = query.text("resourceVersion");
        let errors = if options.watch {
            options.watch_errors(query.text("resourceVersionMatch"), version)
        } else {
            options.list_errors(query.text("resourceVersionMatch"), version)
        };
        refuse("ListOptions", &errors)?;
        if !version.is_empty() {
            options.version = Some(version_of_query(version, !options.watch)?);
        }
        Ok(options)
    }

    /// `version` is the text of the requested version.
    fn watch_errors(&self, version_match: &str, version: &str) -> FieldErrors {
        let path = Path::new("resourceVersionMatch");
        let mut errors = FieldErrors::new();
        let mut forbid = |detail| errors.push(FieldError::forbidden(&path, detail));
        let is_not_older_than = self.version_match == Some(VersionMatch::NotOlderThan);
        if self.send_initial_events.is_some() && !is_not_older_than {
            forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        if version_match.is_empty() {
            // Upstream's defaults set `resourceVersionMatch` for watches from the newest or any version.
            let has_default = self.send_initial_events.is_none() && matches!(version, "" | "0");
            if has_default && !self.continue_token.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            return errors;
        }
        if self.send_initial_events.is_none() {
            forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        }
        if !self.continue_token.is_empty() {
            forbid("resourceVersionMatch is forbidden when continue is provided");
        }
        if !is_not_older_than {
            errors.push(FieldError::not_supported(&path, version_match, &["NotOlderThan"]));
        }
        errors
    }

    /// `version` is the text of the requested version.
    fn list_errors(&self, version_match: &str, version: &str) -> FieldErrors {
        let path = Path::new("resourceVersionMatch");
        let mut errors = FieldErrors::new();
        let mut forbid = |detail| errors.push(FieldError::forbidden(&path, detail));
        if !version_match.is_empty() {
            if version.is_empty() {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if self.version_match == Some(VersionMatch::Exact) && version == "0" {
                forbid("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
            }
            if self.version_match.is_none() {
                let allowed = ["Exact", "NotOlderThan", ""];
                errors.push(FieldError::not_supported(&path, version_match, &allowed));
            }
        }
        if self.send_initial_events.is_some() {
            let detail = "sendInitialEvents is forbidden for list";
            errors.push(FieldError::forbidden(&Path::new("sendInitialEvents"), detail));
        }
        errors
    }
}

/// Parses a resourceVersion.
///
/// # Errors
/// Upstream's text about one that is not a number.
pub(crate) fn parse_version(text: &str) -> Result<Revision, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let reason = if is_number {
        "value out of range"
    } else {
        "invalid syntax"
    };
    let version = text.parse::<u64>().ok().filter(|_| is_number);
    version
        .map(Revision)
        .ok_or_else(|| format!("strconv.ParseUint: parsing {text:?}: {reason}"))
}

/// Parses the resourceVersion of a query. As upstream, the failure of a list is 400, and that of another read is 500
/// without a reason.
///
/// # Errors
/// One of these if it is not a number.
pub(crate) fn version_of_query(text: &str, is_list: bool) -> Result<Revision, Failure> {
    parse_version(text).map_err(|fault| {
        let message = format!("resourceVersion: Invalid value: {text:?}: {fault}");
        if is_list {
            Failure::bad_request(format!("invalid resource version: {message}"))
        } else {
            Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
        }
    })
}

fn read_dry_run<'a>(values: impl Iterator<Item = &'a str>, errors: &mut FieldErrors) -> bool {
    let mut dry_run = false;
    for value in values {
        match value {
            "All" => dry_run = true,
            other => errors.push(FieldError::not_supported(&Path::new("dryRun"), other, &["All"])),
        }
    }
    dry_run
}

fn read_integer(query: &Query, name: &str) -> Result<Option<i64>, Failure> {
    let Some(text) = query.all(name).next() else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| {
        Failure::bad_request(format!(
            "strconv.ParseInt: parsing {text:?}: invalid syntax: the query parameter {name} must be a whole number"
        ))
    })
}

fn refuse(options_kind: &str, errors: &FieldErrors) -> Result<(), Failure> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid_options("meta.k8s.io", options_kind, "", errors))
}
