//! Validation of `hostUsers` (KEP-127).

use serde_json::Value;

use crate::kinds::pod::ALL_CONTAINER_LISTS;
use crate::machinery::field::{FieldError, FieldErrors, Path};
use crate::machinery::tree::{child, flag_if_set, items, text};

/// Checks that a Pod with its own user namespace shares no other namespace with the host. Only such a Pod may have an
/// unmasked `/proc`.
pub(super) fn validate(errors: &mut FieldErrors, spec: &Value, path: &Path) {
    if flag_if_set(spec, "hostUsers") == Some(false) {
        // As upstream, which shows two fields in another case.
        for (field, shown) in [
            ("hostNetwork", "hostNetwork"),
            ("hostPID", "HostPID"),
            ("hostIPC", "HostIPC"),
        ] {
            if flag_if_set(spec, field) == Some(true) {
                let detail = "when `hostUsers` is false";
                errors.push(FieldError::forbidden(&path.child(shown), detail));
            }
        }
        return;
    }
    for list in ALL_CONTAINER_LISTS {
        for (index, container) in items(spec, list).iter().enumerate() {
            let context = child(container, "securityContext");
            if text(context, "procMount") == "Unmasked" {
                let path = path.child(list).index(index).child("securityContext");
                let fault = "`hostUsers` must be false to use `Unmasked`";
                errors.push(FieldError::invalid(&path.child("procMount"), "Unmasked", fault));
            }
        }
    }
}
