//! The options of each verb.

use api::decode::{self, Format};
use api::field::{FieldError, FieldErrors, Path};
use api::tree::{child, items, text, text_if_set};
use http::HeaderMap;
use http::header::USER_AGENT;
use serde_json::Value;
use store::Revision;

use super::Query;
use crate::access::audit::Recorder;
use crate::access::authentication::Identity;
use crate::failure::Failure;

/// What is done about fields that the schema does not know, or that come twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// They are dropped in silence.
    Ignore,
    /// They are dropped with a `Warning` header each.
    Warn,
    /// The request is refused.
    Strict,
}

/// Longest name of a field manager, in bytes.
const MANAGER_BYTES_MAX: usize = 128;

/// Options of create, update and patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteOptions<'q> {
    /// Nothing is stored.
    pub(crate) dry_run: bool,
    /// What is done about unknown fields.
    pub(crate) field_validation: FieldValidation,
    /// Who owns what is written: the name that the request gives, or the client's.
    pub(crate) manager: &'q str,
    /// Whether fields are taken from those who own them; only apply may say so.
    pub(crate) force: Option<bool>,
    /// Who asks for it; nobody if the server does it of its own accord.
    pub(crate) requester: Option<&'q Identity>,
    /// Recorder of the decisions about the request.
    pub(crate) recorder: Recorder<'q>,
}

impl<'q> WriteOptions<'q> {
    /// Reads those of a create or an update; `options_kind` is what an error calls them: `CreateOptions`.
    pub(crate) fn read(
        query: &'q Query<'_>,
        headers: &'q HeaderMap,
        options_kind: &str,
    ) -> Result<WriteOptions<'q>, Failure> {
        WriteOptions::checked(query, headers, options_kind, FieldErrors::new())
    }

    /// Reads those of a patch, or of an apply.
    pub(crate) fn read_patch(
        query: &'q Query<'_>,
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
        query: &'q Query<'_>,
        headers: &'q HeaderMap,
        options_kind: &str,
        mut errors: FieldErrors,
    ) -> Result<WriteOptions<'q>, Failure> {
        let manager = match query.text("fieldManager") {
            "" => client_name(headers),
            given => {
                check_manager(given, &mut errors);
                given
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
                    &["Ignore", "Strict", "Warn"],
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

    /// The same, asked for by somebody.
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

/// The first part of what a client calls itself: `kubectl` of `kubectl/v1.32.4 (linux/amd64)`.
fn client_name(headers: &HeaderMap) -> &str {
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    let name = agent.and_then(|text| text.split('/').next()).unwrap_or_default();
    // Only visible ASCII gets here.
    name.get(..MANAGER_BYTES_MAX).unwrap_or(name)
}

/// What happens to an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They stay, without their owner.
    Orphan,
    /// They go some time later.
    Background,
    /// They go first.
    Foreground,
}

/// Options of delete and deletecollection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    /// Nothing is stored.
    pub(crate) dry_run: bool,
    /// Time granted; `None` leaves it to the kind.
    pub(crate) grace_period_seconds: Option<i64>,
    /// What happens to dependents; `None` leaves it to the kind.
    pub(crate) propagation: Option<Propagation>,
    /// Whether the client asked by the older option, `orphanDependents: false`, that dependents go too.
    pub(crate) is_old_cascade: bool,
    /// The uid that the object must have.
    pub(crate) uid: Option<String>,
    /// The resourceVersion that the object must have.
    pub(crate) resource_version: Option<String>,
}

impl DeleteOptions {
    /// Reads them from the body, or from the query if there is no body.
    pub(crate) fn read(query: &Query<'_>, body: &[u8], format: Format) -> Result<DeleteOptions, Failure> {
        let decoded = decode::decode_delete_options(body, format)
            .map_err(|error| Failure::of_decode(&error))?
            .object;
        let mut errors = FieldErrors::new();
        let has_body = !body.is_empty();
        let dry_runs = items(&decoded, "dryRun").iter().filter_map(Value::as_str);
        let dry_run = read_dry_run(dry_runs.chain(query.all("dryRun")), &mut errors);
        let grace = if has_body {
            decoded.get("gracePeriodSeconds").and_then(Value::as_i64)
        } else {
            read_integer(query, "gracePeriodSeconds")?
        };
        if grace.is_some_and(|seconds| seconds < 0) {
            // Kubernetes takes a negative period for one second, so do we.
            tracing::debug!("a negative grace period reads as one second");
        }
        let policy = match text_if_set(&decoded, "propagationPolicy") {
            Some(policy) => policy,
            None if has_body => "",
            None => query.text("propagationPolicy"),
        };
        let orphan = match decoded.get("orphanDependents").and_then(Value::as_bool) {
            None if !has_body => query.flag("orphanDependents"),
            given => given,
        };
        let propagation = read_propagation(policy, orphan, &mut errors);
        refuse("DeleteOptions", &errors)?;
        let preconditions = child(&decoded, "preconditions");
        let given = |field| Some(text(preconditions, field).to_owned()).filter(|text| !text.is_empty());
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

fn read_propagation(policy: &str, orphan: Option<bool>, errors: &mut FieldErrors) -> Option<Propagation> {
    let path = Path::new("propagationPolicy");
    if !policy.is_empty() && orphan.is_some() {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid(&path, policy, detail));
    }
    match (policy, orphan) {
        ("Orphan", _) | ("", Some(true)) => Some(Propagation::Orphan),
        ("Background", _) | ("", Some(false)) => Some(Propagation::Background),
        ("Foreground", _) => Some(Propagation::Foreground),
        ("", None) => None,
        (other, _) => {
            let allowed = ["Background", "Foreground", "Orphan", "nil"];
            errors.push(FieldError::not_supported(&path, other, &allowed));
            None
        }
    }
}

/// How a list's or watch's resourceVersion is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VersionMatch {
    /// That version and no other.
    Exact,
    /// That version or a newer one.
    NotOlderThan,
}

/// Options of list and watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListOptions {
    /// Label selector, not yet parsed.
    pub(crate) label_selector: String,
    /// Field selector, not yet parsed.
    pub(crate) field_selector: String,
    /// Most objects of one answer.
    pub(crate) limit: Option<usize>,
    /// Where the list before ended.
    pub(crate) continue_token: String,
    /// The version asked for; 0 is any.
    pub(crate) version: Option<Revision>,
    /// How it is meant.
    pub(crate) version_match: Option<VersionMatch>,
    /// Whether this is a watch.
    pub(crate) watch: bool,
    /// Whether the client takes bookmarks.
    pub(crate) bookmarks: bool,
    /// Whether a watch begins with all objects.
    pub(crate) send_initial_events: Option<bool>,
    /// When the answer is to end.
    pub(crate) timeout_seconds: Option<u64>,
}

impl ListOptions {
    /// Reads them.
    pub(crate) fn read(query: &Query<'_>) -> Result<ListOptions, Failure> {
        let version_text = query.text("resourceVersion");
        let version = match version_text {
            "" => None,
            text => Some(parse_version(text)?),
        };
        let version_match = match query.text("resourceVersionMatch") {
            "Exact" => Some(VersionMatch::Exact),
            "NotOlderThan" => Some(VersionMatch::NotOlderThan),
            _ => None,
        };
        let options = ListOptions {
            label_selector: query.text("labelSelector").to_owned(),
            field_selector: query.text("fieldSelector").to_owned(),
            limit: read_integer(query, "limit")?
                .filter(|&n| n > 0)
                .and_then(|n| usize::try_from(n).ok()),
            continue_token: query.text("continue").to_owned(),
            version,
            version_match,
            watch: query.flag("watch").unwrap_or(false),
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            send_initial_events: query.flag("sendInitialEvents"),
            timeout_seconds: read_integer(query, "timeoutSeconds")?.and_then(|n| u64::try_from(n).ok()),
        };
        let errors = match options.watch {
            true => options.faults_of_watch(query.text("resourceVersionMatch")),
            false => options.faults_of_list(query.text("resourceVersionMatch")),
        };
        refuse("ListOptions", &errors)?;
        Ok(options)
    }

    fn faults_of_watch(&self, version_match: &str) -> FieldErrors {
        let path = Path::new("resourceVersionMatch");
        let mut errors = FieldErrors::new();
        let mut forbid = |detail| errors.push(FieldError::forbidden(&path, detail));
        let is_fitting = self.version_match == Some(VersionMatch::NotOlderThan);
        if self.send_initial_events.is_some() && !is_fitting {
            forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
        }
        if version_match.is_empty() {
            return errors;
        }
        if self.send_initial_events.is_none() {
            forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
        }
        if !self.continue_token.is_empty() {
            forbid("resourceVersionMatch is forbidden when continue is provided");
        }
        if !is_fitting {
            errors.push(FieldError::not_supported(&path, version_match, &["NotOlderThan"]));
        }
        errors
    }

    fn faults_of_list(&self, version_match: &str) -> FieldErrors {
        let path = Path::new("resourceVersionMatch");
        let mut errors = FieldErrors::new();
        let mut forbid = |detail| errors.push(FieldError::forbidden(&path, detail));
        if !version_match.is_empty() {
            if self.version.is_none() {
                forbid("resourceVersionMatch is forbidden unless resourceVersion is provided");
            }
            if !self.continue_token.is_empty() {
                forbid("resourceVersionMatch is forbidden when continue is provided");
            }
            if self.version_match == Some(VersionMatch::Exact) && self.version == Some(Revision(0)) {
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

/// Reads a resourceVersion.
pub(crate) fn parse_version(text: &str) -> Result<Revision, Failure> {
    text.parse().map(Revision).map_err(|_| {
        Failure::bad_request(format!(
            "Invalid value: {text:?}: the resource version must be a number"
        ))
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

fn read_integer(query: &Query<'_>, name: &str) -> Result<Option<i64>, Failure> {
    match query.text(name) {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            Failure::bad_request(format!(
                "the query parameter {name} must be a whole number, not {text:?}"
            ))
        }),
    }
}

fn refuse(options_kind: &str, errors: &FieldErrors) -> Result<(), Failure> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Failure::invalid_options("meta.k8s.io", options_kind, "", errors))
}
