//! Media types: what a body is, and what the client wants to get.

use api::decode::Format;
use api::kind::Kind;
use api::patch::PatchFormat;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};

use crate::failure::Failure;
use crate::request::query::Query;

/// What of an object an answer carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Representation {
    /// The objects as they are.
    Objects,
    /// Rows and columns for people (API-15).
    Table,
    /// Only their metadata.
    Metadata,
}

/// How it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Encoding {
    /// As the store has it.
    Json,
    /// With line breaks, for people.
    PrettyJson,
    Yaml,
    Protobuf,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    pub(crate) representation: Representation,
    pub(crate) encoding: Encoding,
}

impl Form {
    /// What a client gets that does not say what it wants.
    pub(crate) const PLAIN: Form = Form {
        representation: Representation::Objects,
        encoding: Encoding::Json,
    };

    /// Whether stored bytes can be sent as they are.
    pub(crate) fn is_plain(self) -> bool {
        self == Form::PLAIN
    }
}

impl Encoding {
    /// The media type of an answer.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Encoding::Json | Encoding::PrettyJson => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The media type of a watch.
    pub(crate) fn stream_content_type(self) -> &'static str {
        match self {
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            _ => "application/json",
        }
    }
}

/// The form in which the client wants an answer about objects of a kind.
pub(crate) fn form(headers: &HeaderMap, query: &Query<'_>, kind: &Kind) -> Result<Form, Failure> {
    let form = accepted(headers, |form| is_offered(kind, form)).ok_or_else(Failure::not_acceptable)?;
    match form.encoding {
        Encoding::Json if wants_line_breaks(headers, query) => Ok(Form {
            encoding: Encoding::PrettyJson,
            ..form
        }),
        _ => Ok(form),
    }
}

/// The form in which the client wants the events of a watch on objects of a kind.
pub(crate) fn stream_form(headers: &HeaderMap, kind: &Kind) -> Result<Form, Failure> {
    let is_served = |form: Form| form.encoding != Encoding::Yaml && is_offered(kind, form);
    accepted(headers, is_served).ok_or_else(Failure::not_acceptable_stream)
}

/// Whether objects of the kind have that form.
fn is_offered(kind: &Kind, form: Form) -> bool {
    kind.has_protobuf()
        || form.encoding != Encoding::Protobuf
        || form.representation != Representation::Objects
}

/// How a `Status` is written for this client, who may not accept any form at all.
pub(crate) fn status_encoding(headers: &HeaderMap) -> Encoding {
    accepted(headers, |_| true).map_or(Encoding::Json, |form| form.encoding)
}

/// The first form that is served and that the client prefers to others; `None` if it accepts none.
fn accepted(headers: &HeaderMap, is_served: impl Fn(Form) -> bool) -> Option<Form> {
    let mut clauses: Vec<(u16, &str)> = Vec::new();
    for accept in headers.get_all(ACCEPT) {
        let text = accept.to_str().unwrap_or_default();
        let each = text.split(',').map(str::trim).filter(|clause| !clause.is_empty());
        clauses.extend(each.map(|clause| (weight(clause), clause)));
    }
    if clauses.is_empty() {
        return Some(Form::PLAIN);
    }
    // Stable: among equals the first one counts.
    clauses.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
    clauses
        .into_iter()
        .filter_map(|(_, clause)| form_of(clause))
        .find(|form| is_served(*form))
}

/// The weight of a clause in thousandths, as RFC 9110 12.4.2 has it.
fn weight(clause: &str) -> u16 {
    const WHOLE: u16 = 1000;
    let mut parameters = clause.split(';').skip(1).map(str::trim);
    let given = parameters.find_map(|parameter| parameter.strip_prefix("q="));
    let weight = given.and_then(|text| text.parse::<f32>().ok());
    weight.map_or(WHOLE, |weight| (weight.clamp(0.0, 1.0) * f32::from(WHOLE)) as u16)
}

fn form_of(clause: &str) -> Option<Form> {
    let mut parts = clause.split(';').map(str::trim);
    let mut encoding = match parts.next() {
        Some("application/json" | "application/*" | "*/*") => Encoding::Json,
        Some("application/yaml") => Encoding::Yaml,
        Some("application/vnd.kubernetes.protobuf") => Encoding::Protobuf,
        _ => return None,
    };
    let (mut kind, mut group, mut version) = ("", "", "");
    for part in parts {
        match part.split_once('=') {
            Some(("as", value)) => kind = value,
            Some(("g", value)) => group = value,
            Some(("v", value)) => version = value,
            Some(("stream", value)) if value != "watch" => return None,
            Some(("charset", value)) if !value.eq_ignore_ascii_case("utf-8") => return None,
            Some(("pretty", "1")) if encoding == Encoding::Json => encoding = Encoding::PrettyJson,
            _ => {}
        }
    }
    let representation = match (kind, group, version) {
        ("", ..) => Representation::Objects,
        // Upstream has no protobuf form of tables either.
        ("Table", "meta.k8s.io", "v1") if encoding != Encoding::Protobuf => Representation::Table,
        ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => {
            Representation::Metadata
        }
        _ => return None,
    };
    Some(Form {
        representation,
        encoding,
    })
}

/// Whether JSON is for people: they ask for it, or come with a tool for people.
fn wants_line_breaks(headers: &HeaderMap, query: &Query<'_>) -> bool {
    if let Some(asked) = query.flag("pretty") {
        return asked;
    }
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    agent.is_some_and(|agent| {
        ["curl", "Wget", "Mozilla/5.0"]
            .iter()
            .any(|tool| agent.starts_with(tool))
    })
}

/// Whether the client asks for discovery in the aggregated form.
pub(crate) fn accepts_aggregated_discovery(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|text| {
            text.split(',').any(|entry| {
                let parts: Vec<&str> = entry.split(';').map(str::trim).collect();
                parts.first() == Some(&"application/json")
                    && ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"]
                        .iter()
                        .all(|wanted| parts.contains(wanted))
            })
        })
}

/// The format of an object in a body; a body without a type is JSON.
pub(crate) fn body_format(headers: &HeaderMap) -> Result<Format, Failure> {
    match media_type(headers) {
        "" | "application/json" | "*/*" => Ok(Format::Json),
        "application/yaml" => Ok(Format::Yaml),
        "application/vnd.kubernetes.protobuf" => Ok(Format::Protobuf),
        other => Err(Failure::unsupported_media_type(format!(
            "the body of the request was in an unknown format ({other}); accepted media types include: \
             application/json, application/yaml, application/vnd.kubernetes.protobuf"
        ))),
    }
}

/// What the body of a patch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchForm {
    /// A patch in one of the formats of changes.
    Patch(PatchFormat),
    /// A configuration that is applied.
    Apply,
}

/// The form of a patch.
pub(crate) fn patch_form(headers: &HeaderMap) -> Result<PatchForm, Failure> {
    let media_type = media_type(headers);
    if media_type == "application/apply-patch+yaml" {
        return Ok(PatchForm::Apply);
    }
    PatchFormat::from_content_type(media_type)
        .map(PatchForm::Patch)
        .ok_or_else(|| {
            Failure::unsupported_media_type(format!(
                "the body of the request was in an unknown format ({media_type}); accepted media types include: \
                 application/json-patch+json, application/merge-patch+json, \
                 application/strategic-merge-patch+json, application/apply-patch+yaml"
            ))
        })
}

fn media_type(headers: &HeaderMap) -> &str {
    let text = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests;
