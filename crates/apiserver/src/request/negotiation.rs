//! Content negotiation: media types of request bodies, and forms of responses.

use api::decode::Format;
use api::kind::Kind;
use api::patch::PatchFormat;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};

use super::query::Query;
use crate::failure::Failure;

/// Parts of an object that a response carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Representation {
    /// Whole objects.
    Objects,
    /// Rows and columns for terminals (API-15).
    Table,
    /// Metadata only.
    Metadata,
}

/// Serialization of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Encoding {
    /// As stored.
    Json,
    /// Indented JSON (`pretty`).
    PrettyJson,
    Yaml,
    Protobuf,
}

/// Representation and encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    pub(crate) representation: Representation,
    pub(crate) encoding: Encoding,
}

impl Form {
    /// Form for clients that send no Accept header.
    pub(crate) const PLAIN: Form = Form {
        representation: Representation::Objects,
        encoding: Encoding::Json,
    };

    /// Returns true if stored bytes are sent unchanged.
    pub(crate) fn is_plain(self) -> bool {
        self == Form::PLAIN
    }
}

impl Encoding {
    /// Media type of a response.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Encoding::Json | Encoding::PrettyJson => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// Media type of a watch.
    pub(crate) fn stream_content_type(self) -> &'static str {
        match self {
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            _ => "application/json",
        }
    }
}

/// Forms of a client that count. The parsed headers live as long as their request waits.
const FORMS_MAX: usize = 64;

/// Forms that a client accepts, parsed from its Accept headers.
#[derive(Debug)]
pub(crate) struct Accept {
    /// Forms with their weights, most preferred first. Unknown media types are left out.
    forms: Vec<(u16, Form)>,
    /// Set if there is a media type, known or not.
    has_media_type: bool,
}

impl Accept {
    /// Parses the Accept headers.
    pub(crate) fn of(headers: &HeaderMap) -> Accept {
        let (mut forms, mut has_media_type) = (Vec::new(), false);
        for accept in headers.get_all(ACCEPT) {
            let text = accept.to_str().unwrap_or_default();
            for clause in text.split(',').map(str::trim).filter(|clause| !clause.is_empty()) {
                has_media_type = true;
                if forms.len() < FORMS_MAX {
                    forms.extend(form_of(clause).map(|form| (weight(clause), form)));
                }
            }
        }
        // Stable: of two forms with the same weight, the first is preferred.
        forms.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
        Accept {
            forms,
            has_media_type,
        }
    }

    /// Form of a response about objects of a kind.
    ///
    /// # Errors
    /// 406 if the client accepts none of the offered forms.
    pub(crate) fn form(&self, headers: &HeaderMap, query: &Query, kind: &Kind) -> Result<Form, Failure> {
        let form = self.first(|form| is_offered(kind, form));
        let form = form.ok_or_else(Failure::not_acceptable)?;
        match form.encoding {
            Encoding::Json if wants_line_breaks(headers, query) => Ok(Form {
                encoding: Encoding::PrettyJson,
                ..form
            }),
            _ => Ok(form),
        }
    }

    /// Form of the events of a watch on objects of a kind.
    ///
    /// # Errors
    /// 406 if the client accepts none of the offered forms.
    pub(crate) fn stream_form(&self, kind: &Kind) -> Result<Form, Failure> {
        let is_served = |form: Form| form.encoding != Encoding::Yaml && is_offered(kind, form);
        self.first(is_served).ok_or_else(Failure::not_acceptable_stream)
    }

    /// Encoding of a `Status`: JSON if the client accepts no known form.
    pub(crate) fn status_encoding(&self) -> Encoding {
        self.first(|_| true).map_or(Encoding::Json, |form| form.encoding)
    }

    /// Most preferred form that is served.
    fn first(&self, is_served: impl Fn(Form) -> bool) -> Option<Form> {
        if !self.has_media_type {
            return Some(Form::PLAIN);
        }
        let mut forms = self.forms.iter().map(|(_, form)| *form);
        forms.find(|form| is_served(*form))
    }
}

/// Returns true if objects of the kind have the form.
fn is_offered(kind: &Kind, form: Form) -> bool {
    kind.has_protobuf()
        || form.encoding != Encoding::Protobuf
        || form.representation != Representation::Objects
}

/// Weight of a clause in thousandths (RFC 9110, section 12.4.2).
fn weight(clause: &str) -> u16 {
    const WHOLE: u16 = 1000;
    let mut parameters = clause.split(';').skip(1).map(str::trim);
    let given = parameters.find_map(|parameter| parameter.strip_prefix("q="));
    let weight = given.and_then(|text| text.parse::<f32>().ok());
    weight.map_or(WHOLE, |weight| (weight.clamp(0.0, 1.0) * f32::from(WHOLE)) as u16)
}

/// Form of one clause of an Accept header; `None` for an unknown media type.
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
        // Upstream serves no tables in protobuf.
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

/// Returns true if JSON is indented: by the parameter `pretty`, or by the user agent.
fn wants_line_breaks(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(pretty) = query.flag("pretty") {
        return pretty;
    }
    let agent = headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    agent.is_some_and(|agent| {
        ["curl", "Wget", "Mozilla/5.0"]
            .iter()
            .any(|tool| agent.starts_with(tool))
    })
}

/// Returns true if the client accepts aggregated discovery.
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

/// Format of an object in a request body; JSON if the Content-Type is absent.
///
/// # Errors
/// 415 for other media types.
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

/// Meaning of a patch body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchForm {
    /// Changes, in one of the patch formats.
    Patch(PatchFormat),
    /// Configuration for server-side apply.
    Apply,
}

/// Meaning of a patch body, by its Content-Type.
///
/// # Errors
/// 415 for other media types.
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
