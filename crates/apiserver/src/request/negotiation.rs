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
    /// Metadata of one object.
    Metadata,
    /// Metadata of the objects of a list.
    MetadataList,
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

/// Version of the group `meta.k8s.io`, for tables and metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum MetaVersion {
    V1,
    V1Beta1,
}

impl MetaVersion {
    /// Returns the value of `apiVersion`.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// Representation and encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Form {
    pub(crate) representation: Representation,
    /// Version of tables and metadata.
    pub(crate) meta_version: MetaVersion,
    pub(crate) encoding: Encoding,
}

impl Form {
    /// Form for clients that send no Accept header.
    pub(crate) const PLAIN: Form = Form {
        representation: Representation::Objects,
        meta_version: MetaVersion::V1,
        encoding: Encoding::Json,
    };

    /// Returns true if stored bytes are sent unchanged.
    pub(crate) fn is_plain(self) -> bool {
        self == Form::PLAIN
    }
}

impl Encoding {
    /// Returns the media type of a response.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Encoding::Json | Encoding::PrettyJson => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// Returns the media type of a watch.
    pub(crate) fn stream_content_type(self) -> &'static str {
        match self {
            Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            _ => "application/json",
        }
    }
}

/// Maximum number of clauses of an Accept header that are parsed. The parsed header lives as long as its request waits.
const FORMS_MAX: usize = 64;

/// Media types that every path serves.
const MEDIA_TYPES: [&str; 4] = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "*/*",
];

/// Forms that a client accepts, parsed from its Accept header.
#[derive(Debug)]
pub(crate) struct Accept {
    /// Known forms, most preferred first.
    forms: Vec<Form>,
    /// True if the header has a media type.
    has_media_type: bool,
    /// True if a media type of the header is served, with any parameters.
    names_served_type: bool,
}

impl Accept {
    /// Parses the Accept header. As upstream, a second header has no effect.
    pub(crate) fn of(headers: &HeaderMap) -> Accept {
        let text = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
        let clauses = text.unwrap_or_default().split(',').map(str::trim);
        let clauses: Vec<&str> = clauses.filter(|clause| !clause.is_empty()).collect();
        let names_served_type = clauses.iter().any(|clause| {
            let media_type = clause.split(';').next().unwrap_or_default().trim();
            MEDIA_TYPES.contains(&media_type)
        });
        let mut parsed: Vec<Clause<'_>> = clauses
            .iter()
            .take(FORMS_MAX)
            .filter_map(|clause| Clause::parse(clause))
            .collect();
        sort(&mut parsed);
        Accept {
            forms: parsed.iter().filter_map(Clause::form).collect(),
            has_media_type: !clauses.is_empty(),
            names_served_type,
        }
    }

    /// Returns the form of a response about objects of a kind.
    ///
    /// # Errors
    /// 406 if the client accepts none of the offered forms.
    pub(crate) fn form(&self, headers: &HeaderMap, query: &Query, kind: &Kind) -> Result<Form, Failure> {
        let form = self.first(|form| is_offered(kind, form))?;
        match form.encoding {
            Encoding::Json if wants_line_breaks(headers, query) => Ok(Form {
                encoding: Encoding::PrettyJson,
                ..form
            }),
            _ => Ok(form),
        }
    }

    /// Returns the form of the events of a watch on objects of a kind. As upstream, the preferred form is selected
    /// among those of responses, and then has to be a form of watches.
    ///
    /// # Errors
    /// 406 if the client accepts none of the offered forms, or prefers YAML.
    pub(crate) fn stream_form(&self, kind: &Kind) -> Result<Form, Failure> {
        let form = self.first(|form| is_offered(kind, form))?;
        if form.encoding == Encoding::Yaml {
            return Err(Failure::not_acceptable_stream());
        }
        Ok(form)
    }

    /// Returns the encoding of a document that is not about objects.
    ///
    /// # Errors
    /// 406 if the client accepts none of the offered encodings.
    pub(crate) fn document_encoding(&self) -> Result<Encoding, Failure> {
        let form = self.first(|form| form.representation == Representation::Objects)?;
        Ok(form.encoding)
    }

    /// Returns the encoding of a `Status`: JSON if the client accepts no known form.
    pub(crate) fn status_encoding(&self) -> Encoding {
        self.first(|_| true).map_or(Encoding::Json, |form| form.encoding)
    }

    /// Returns the most preferred form that is served.
    fn first(&self, is_served: impl Fn(Form) -> bool) -> Result<Form, Failure> {
        if !self.has_media_type {
            return Ok(Form::PLAIN);
        }
        if !self.names_served_type {
            return Err(Failure::no_representation());
        }
        let mut forms = self.forms.iter().copied();
        forms
            .find(|form| is_served(*form))
            .ok_or_else(Failure::not_acceptable)
    }
}

/// One media type of an Accept header, with its parameters.
#[derive(Debug)]
struct Clause<'h> {
    media_type: &'h str,
    subtype: &'h str,
    /// The parameter `q`; 0 if it is not a number. As upstream, 0 does not exclude a form.
    weight: f32,
    parameters: Vec<(&'h str, &'h str)>,
}

impl<'h> Clause<'h> {
    /// Parses a clause; `None` if it has no media type. Parameters without a value have no effect.
    fn parse(clause: &'h str) -> Option<Clause<'h>> {
        let mut parts = clause.split(';');
        let name = parts.next().unwrap_or_default().trim();
        let (media_type, subtype) = match name.split_once('/') {
            Some((media_type, subtype)) if !subtype.is_empty() && !subtype.contains('/') => {
                (media_type.trim(), subtype.trim())
            }
            None if name == "*" => ("*", "*"),
            _ => return None,
        };
        let pairs = parts.filter_map(|part| part.split_once('='));
        let pairs = pairs.filter(|(_, value)| !value.is_empty() && !value.contains('='));
        let mut parsed = Clause {
            media_type,
            subtype,
            weight: 1.0,
            parameters: Vec::new(),
        };
        for (name, value) in pairs {
            match name.trim() {
                "q" => parsed.weight = value.parse().unwrap_or(0.0),
                name => parsed.parameters.push((name, value.trim())),
            }
        }
        Some(parsed)
    }

    /// Returns the form of the clause; `None` for an unknown media type, or parameters that no form has.
    fn form(&self) -> Option<Form> {
        let mut encoding = match (self.media_type, self.subtype) {
            ("application", "json" | "*") | ("*", "*") => Encoding::Json,
            ("application", "yaml") => Encoding::Yaml,
            ("application", "vnd.kubernetes.protobuf") => Encoding::Protobuf,
            _ => return None,
        };
        let mut converted = None;
        for &(name, value) in &self.parameters {
            let (kind, group, version) = converted.unwrap_or_default();
            match name {
                "as" => converted = Some((value, group, version)),
                "g" => converted = Some((kind, value, version)),
                "v" => converted = Some((kind, group, value)),
                "stream" if value != "watch" => return None,
                "sv" => return None,
                "pretty" if value == "1" && encoding == Encoding::Json => encoding = Encoding::PrettyJson,
                _ => {}
            }
        }
        let Some((kind, group, version)) = converted else {
            return Some(Form {
                encoding,
                ..Form::PLAIN
            });
        };
        let meta_version = match (group, version) {
            ("meta.k8s.io", "v1") => MetaVersion::V1,
            ("meta.k8s.io", "v1beta1") => MetaVersion::V1Beta1,
            _ => return None,
        };
        let representation = match kind {
            // Upstream serves no tables in protobuf.
            "Table" if encoding != Encoding::Protobuf => Representation::Table,
            "PartialObjectMetadata" => Representation::Metadata,
            "PartialObjectMetadataList" => Representation::MetadataList,
            _ => return None,
        };
        Some(Form {
            representation,
            meta_version,
            encoding,
        })
    }

    /// Returns true if upstream sorts the clause before another one. The relation is not an order: a media type without
    /// wildcard also precedes wildcards of a greater weight.
    fn precedes(&self, other: &Clause<'_>) -> bool {
        self.weight > other.weight
            || (self.media_type != "*" && other.media_type == "*")
            || (self.subtype != "*" && other.subtype == "*")
    }
}

/// Sorts clauses by insertion, as upstream does for a few clauses. Since [`Clause::precedes`] is not an order, another
/// algorithm would have another result.
fn sort(clauses: &mut [Clause<'_>]) {
    for end in 1..clauses.len() {
        for at in (1..=end).rev() {
            if !clauses[at].precedes(&clauses[at - 1]) {
                break;
            }
            clauses.swap(at, at - 1);
        }
    }
}

/// Returns true if objects of the kind have the form. As upstream, reviews have no tables.
fn is_offered(kind: &Kind, form: Form) -> bool {
    let is_encoded = kind.has_protobuf()
        || form.encoding != Encoding::Protobuf
        || form.representation != Representation::Objects;
    is_encoded && (kind.is_stored() || form.representation != Representation::Table)
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
                        .all(|requested| parts.contains(requested))
            })
        })
}

/// Returns true if the client accepts JSON from a path that serves no other form. As upstream's router, a wildcard of
/// subtypes is not enough.
pub(crate) fn accepts_plain_json(headers: &HeaderMap) -> bool {
    let text = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let text = text.unwrap_or_default();
    let names_json = |clause: &str| {
        let media_type = clause.split(';').next().unwrap_or_default().trim();
        media_type == "application/json" || media_type == "*/*"
    };
    text.is_empty() || text.split(',').any(names_json)
}

/// Returns the format of the options in the body of a DELETE. As upstream, the Content-Type has no meaning without a
/// body.
///
/// # Errors
/// 415 for a body of another media type.
pub(crate) fn options_format(headers: &HeaderMap, body: &[u8]) -> Result<Format, Failure> {
    if body.is_empty() {
        return Ok(Format::Json);
    }
    body_format(headers)
}

/// Returns the format of an object in a request body; JSON if the Content-Type is absent.
///
/// # Errors
/// 415 for other media types.
pub(crate) fn body_format(headers: &HeaderMap) -> Result<Format, Failure> {
    match media_type(headers).to_ascii_lowercase().as_str() {
        "" | "application/json" => Ok(Format::Json),
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

/// Returns the meaning of a patch body, by its Content-Type.
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
