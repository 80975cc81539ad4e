//! Media types: what a body is, and what the client wants to get.

use api::decode::Format;
use api::patch::PatchFormat;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

use crate::failure::Failure;

/// The form of an answer that carries objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Representation {
    /// The objects as they are.
    Objects,
    /// Rows and columns for people (API-15).
    Table,
    /// Only their metadata.
    Metadata,
}

/// What the client wants objects as: the first form in `Accept` that is served.
pub(crate) fn representation(headers: &HeaderMap) -> Result<Representation, Failure> {
    let mut offered = false;
    for accept in headers.get_all(ACCEPT) {
        let text = accept.to_str().unwrap_or_default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            offered = true;
            if let Some(form) = representation_of(entry) {
                return Ok(form);
            }
        }
    }
    if offered {
        Err(Failure::not_acceptable())
    } else {
        Ok(Representation::Objects)
    }
}

fn representation_of(entry: &str) -> Option<Representation> {
    let mut parts = entry.split(';').map(str::trim);
    if !matches!(parts.next(), Some("application/json" | "application/*" | "*/*")) {
        return None;
    }
    let (mut form, mut group, mut version) = ("", "", "");
    for part in parts {
        match part.split_once('=') {
            Some(("as", value)) => form = value,
            Some(("g", value)) => group = value,
            Some(("v", value)) => version = value,
            _ => {}
        }
    }
    match (form, group, version) {
        ("", ..) => Some(Representation::Objects),
        ("Table", "meta.k8s.io", "v1") => Some(Representation::Table),
        ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => {
            Some(Representation::Metadata)
        }
        _ => None,
    }
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
