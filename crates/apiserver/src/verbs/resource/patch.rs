//! Implements `patch` with JSON patch, merge patch and strategic merge patch.

use api::decode::{DecodeError, Decoded, conform};
use api::patch::{PatchFormat, apply};
use api::tree::text;
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
            let patched = apply(&shown, body, format, kind).map_err(|error| {
                match StatusCode::from_u16(error.status_code()) {
                    Ok(StatusCode::UNPROCESSABLE_ENTITY) => Failure::unprocessable(error.to_string()),
                    Ok(StatusCode::PAYLOAD_TOO_LARGE) => Failure::new(
                        StatusCode::PAYLOAD_TOO_LARGE,
                        "RequestEntityTooLarge",
                        error.to_string(),
                    ),
                    _ => Failure::bad_request(error.to_string()),
                }
            })?;
            // The audit log records the message at all levels, and must not contain the data of a Secret.
            let shown = || match kind.kind {
                "Secret" => "<omitted>".to_owned(),
                _ => shown_in_failure(&patched.object, body, format),
            };
            let decoded = if format != PatchFormat::StrategicMerge && lacks_version(&patched.object) {
                Ok(without_fields(&patched.object))
            } else {
                conform(patched.object.clone(), kind)
            };
            let decoded = decoded.map(|mut decoded| {
                decoded
                    .strict_errors
                    .splice(0..0, patched.strict_errors.iter().cloned());
                decoded
            });
            let refused = |error: DecodeError| match error {
                DecodeError::TooManyValues => Failure::of_decode(&error),
                other => Failure::invalid_patch(&shown(), other.detail()),
            };
            let (mut object, warnings) =
                apply_field_validation(decoded, kind, options.field_validation, refused)?;
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

/// Returns true if a patch has removed `apiVersion`.
fn lacks_version(patched: &Value) -> bool {
    patched.is_object() && text(patched, "apiVersion").is_empty()
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

/// Returns the value that the failure of a patch shows, as upstream: the patched object, or the strategic merge patch in
/// the notation of Go.
fn shown_in_failure(patched: &Value, body: &[u8], format: PatchFormat) -> String {
    match (format, serde_json::from_slice::<Value>(body)) {
        (PatchFormat::StrategicMerge, Ok(patch)) => go_notation(&patch),
        _ => patched.to_string(),
    }
}

/// Formats a value as Go's `%+v` does. The parser limits the depth.
fn go_notation(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_notation).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{name}:{}", go_notation(value)))
                .collect();
            format!("map[{}]", fields.join(" "))
        }
        other => other.to_string(),
    }
}
