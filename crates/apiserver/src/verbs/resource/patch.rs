//! Implements `patch` with JSON patch, merge patch and strategic merge patch.

use api::decode::{DecodeError, Decoded, conform, convert_numbers};
use api::patch::{PatchError, PatchFormat, apply, go_notation};
use http::StatusCode;

use serde_json::Value;

use super::{
    Outcome, Ownership, Resources, WriteContext, apply_field_validation, ensure_name, ensure_namespace,
    retry_on_conflict, scale,
};
use crate::failure::Failure;
use crate::request::query::WriteOptions;
use crate::request::route::Target;

impl Resources {
    /// Applies a patch to an object. After a conflict the patch is applied to the newer object, unless it names a
    /// `resourceVersion`.
    pub(crate) async fn patch(
        &self,
        target: &Target,
        body: &[u8],
        format: PatchFormat,
        options: WriteOptions<'_>,
    ) -> Result<Outcome, Failure> {
        retry_on_conflict(target, || async move {
            let stored = self
                .stored(target)
                .await?
                .ok_or_else(|| Failure::not_found(target.kind, target.name()))?;
            let kind = target.sent_kind();
            let shown = kind.of_stored(scale::to_representation(stored.object.clone(), target));
            let patched = apply(&shown, body, format, kind).map_err(|error| failure_of(&error, kind.kind))?;
            // The audit log records the message at all levels, and must not contain the data of a Secret.
            let shown = || match kind.kind {
                "Secret" => "<omitted>".to_owned(),
                _ => shown_in_failure(&patched.object, body, format),
            };
            let decoded = if format != PatchFormat::StrategicMerge && lacks_version(&patched.object) {
                Ok(without_fields(&patched.object))
            } else {
                let mut object = patched.object.clone();
                if format == PatchFormat::StrategicMerge {
                    convert_numbers(&mut object, kind);
                }
                conform(object, kind)
            };
            let decoded = decoded.map(|mut decoded| {
                decoded
                    .strict_errors
                    .splice(0..0, patched.strict_errors.iter().cloned());
                decoded
            });
            let invalid = |error: DecodeError| match error {
                DecodeError::TooManyValues => Failure::of_decode(&error),
                other => Failure::invalid_patch(&shown(), other.detail()),
            };
            let (mut object, warnings) =
                apply_field_validation(decoded, kind, options.field_validation, invalid)?;
            let settled = ensure_name(&object, target)
                .and_then(|()| ensure_namespace(&mut object, target))
                .and_then(|()| scale::from_representation(object, &stored.object, target));
            let object = match settled {
                Ok(object) => object,
                Err(failure) => return Err(failure.warned(warnings).into()),
            };
            let ownership = Ownership::Updated(options.manager);
            self.replace(
                target,
                stored,
                object,
                warnings,
                WriteContext::of(&options, ownership),
            )
            .await
        })
        .await
    }
}

/// Returns the failure of a patch that does not apply. Messages about directives contain values of the patch. The audit
/// log records them at all levels, and must not contain the data of a Secret.
fn failure_of(error: &PatchError, kind_name: &str) -> Failure {
    let code = StatusCode::from_u16(error.status_code()).unwrap_or(StatusCode::BAD_REQUEST);
    match code {
        StatusCode::INTERNAL_SERVER_ERROR if kind_name == "Secret" => {
            Failure::new(code, "", "a directive of the patch does not apply")
        }
        StatusCode::INTERNAL_SERVER_ERROR => Failure::new(code, "", error.to_string()),
        StatusCode::UNPROCESSABLE_ENTITY => Failure::unprocessable(error.to_string()),
        StatusCode::PAYLOAD_TOO_LARGE => Failure::new(code, "RequestEntityTooLarge", error.to_string()),
        _ => Failure::bad_request(error.to_string()),
    }
}

/// Returns true if a patch has removed `apiVersion`.
fn lacks_version(patched: &Value) -> bool {
    match patched.get("apiVersion") {
        None | Some(Value::Null) => patched.is_object(),
        // Decoding rejects other types.
        Some(version) => version == "",
    }
}

/// Decodes an object without `apiVersion`. As upstream, none of its fields is known then.
fn without_fields(patched: &Value) -> Decoded {
    let names = patched.as_object().into_iter().flat_map(serde_json::Map::keys);
    let mut unknown: Vec<&String> = names
        .filter(|name| !matches!(name.as_str(), "apiVersion" | "kind"))
        .collect();
    unknown.sort_unstable();
    Decoded {
        object: Value::Object(serde_json::Map::new()),
        strict_errors: unknown
            .into_iter()
            .map(|name| format!("unknown field {name:?}"))
            .collect(),
    }
}

/// Returns the value that the error of a failed patch shows, as upstream. This is the patched object, or the
/// strategic merge patch in the notation of Go.
fn shown_in_failure(patched: &Value, body: &[u8], format: PatchFormat) -> String {
    match (format, serde_json::from_slice::<Value>(body)) {
        (PatchFormat::StrategicMerge, Ok(patch)) => go_notation(&patch),
        _ => patched.to_string(),
    }
}
