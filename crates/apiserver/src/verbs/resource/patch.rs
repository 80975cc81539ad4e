//! Implements `patch` with JSON patch, merge patch and strategic merge patch.

use api::decode::conform;
use api::patch::{PatchFormat, apply};
use http::StatusCode;

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
            let decoded = conform(patched, kind);
            let (mut object, warnings) = apply_field_validation(decoded, kind, options.field_validation)?;
            let settled = ensure_name(&mut object, target)
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
