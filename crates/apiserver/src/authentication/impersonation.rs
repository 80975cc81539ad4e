//! Asking in somebody else's name, by `Impersonate-*` headers, for those who are allowed to.

use std::sync::Arc;

use api::rbac::Action;
use http::HeaderMap;

use super::{AUTHENTICATED, Identity, SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNTS};
use crate::authorization::{Attributes, Authorizer};
use crate::failure::Failure;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// In whose name a request is made.
pub(crate) fn impersonated(
    requester: Arc<Identity>,
    headers: &HeaderMap,
    authorizer: &Authorizer,
) -> Result<Arc<Identity>, Failure> {
    let wanted = Wanted::read(headers);
    if wanted.user.is_empty() {
        if wanted.groups.is_empty() && wanted.uid.is_empty() && wanted.extra.is_empty() {
            return Ok(requester);
        }
        let message = "requested user, groups or extra to impersonate without impersonating a user";
        return Err(Failure::internal(message));
    }
    let check = |group, resource, subresource, namespace, name: &str| {
        let action = Action::Resource {
            verb: "impersonate",
            group,
            resource,
            subresource,
            name,
        };
        authorizer.check(&Attributes::new(&requester, namespace, action))
    };
    match service_account(wanted.user) {
        Some((namespace, name)) => check("", "serviceaccounts", "", namespace, name)?,
        None => check("", "users", "", "", wanted.user)?,
    }
    for group in &wanted.groups {
        check("", "groups", "", "", group)?;
    }
    if !wanted.uid.is_empty() {
        check("authentication.k8s.io", "uids", "", "", wanted.uid)?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            check("authentication.k8s.io", "userextras", key, "", value)?;
        }
    }
    Ok(Arc::new(wanted.identity()))
}

/// What the headers ask for.
struct Wanted<'h> {
    user: &'h str,
    uid: &'h str,
    groups: Vec<String>,
    extra: Vec<(String, Vec<String>)>,
}

impl<'h> Wanted<'h> {
    fn read(headers: &'h HeaderMap) -> Wanted<'h> {
        let one = |name| {
            headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
        };
        let all = |name: &http::HeaderName| -> Vec<String> {
            let values = headers.get_all(name).iter();
            values
                .filter_map(|value| value.to_str().ok())
                .map(str::to_owned)
                .collect()
        };
        let extra = headers.keys().filter_map(|name| {
            let key = name.as_str().strip_prefix(EXTRA_PREFIX)?;
            Some((crate::query::decode_segment(key).into_owned(), all(name)))
        });
        Wanted {
            user: one(USER),
            uid: one(UID),
            groups: all(&http::HeaderName::from_static(GROUP)),
            extra: extra.collect(),
        }
    }

    /// A ServiceAccount is in its groups by itself, and everybody but the anonymous counts as having proved who
    /// they are.
    fn identity(self) -> Identity {
        let mut groups = self.groups;
        if let Some((namespace, _)) = service_account(self.user)
            && groups.is_empty()
        {
            groups = vec![
                SERVICE_ACCOUNTS.to_owned(),
                format!("{SERVICE_ACCOUNTS}:{namespace}"),
            ];
        }
        let anonymous = Identity::anonymous();
        if self.user == anonymous.user {
            if groups.is_empty() {
                groups = anonymous.groups;
            }
        } else if !groups.iter().any(|group| group == AUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Identity {
            user: self.user.to_owned(),
            uid: self.uid.to_owned(),
            groups,
            extra: self.extra,
        }
    }
}

/// Namespace and name of the ServiceAccount that a user name stands for.
fn service_account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')
}
