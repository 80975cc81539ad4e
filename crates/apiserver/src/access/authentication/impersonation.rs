//! Asking in somebody else's name, by `Impersonate-*` headers, for those who are allowed to.

use std::sync::Arc;

use api::names::{dns_label, dns_subdomain};
use api::rbac::Action;
use http::{HeaderMap, HeaderValue};

use super::identity::{ANONYMOUS, UNAUTHENTICATED};
use super::{AUTHENTICATED, Identity, SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNTS};
use crate::access::authorization::{Attributes, Authorizer};
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
    let wanted = Wanted::read(headers)?;
    if wanted.user.is_empty() {
        if wanted.groups.is_empty() && wanted.uid.is_empty() && wanted.extra.is_empty() {
            return Ok(requester);
        }
        let message = format!(
            "requested uid {:?}, groups {:?} and extra {:?} without impersonating a user name",
            wanted.uid, wanted.groups, wanted.extra
        );
        return Err(Failure::bad_request(message));
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
    /// Reads the headers. One that cannot be read is refused: without it the request would have other rights than asked for.
    fn read(headers: &'h HeaderMap) -> Result<Wanted<'h>, Failure> {
        let mut extra = Vec::new();
        for name in headers.keys() {
            if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
                let key = crate::request::query::decode_segment(key).into_owned();
                extra.push((key, all(headers, name.as_str())?));
            }
        }
        Ok(Wanted {
            user: one(headers, USER)?,
            uid: one(headers, UID)?,
            groups: all(headers, GROUP)?,
            extra,
        })
    }

    /// Adds the groups that nobody has to name: those of a ServiceAccount, and the one that says whether an identity was
    /// proved (upstream's `endpoints/filters/impersonation/mode.go`).
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
        let has = |groups: &[String], name: &str| groups.iter().any(|group| group == name);
        let implied = match self.user {
            ANONYMOUS => UNAUTHENTICATED,
            _ if has(&groups, UNAUTHENTICATED) => "",
            _ => AUTHENTICATED,
        };
        if !implied.is_empty() && !has(&groups, implied) {
            groups.push(implied.to_owned());
        }
        Identity {
            user: self.user.to_owned(),
            uid: self.uid.to_owned(),
            groups,
            extra: self.extra,
            signed: None,
        }
    }
}

/// The value of a header that is given once at most; "" if it is absent.
fn one<'h>(headers: &'h HeaderMap, name: &str) -> Result<&'h str, Failure> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map_or(Ok(""), |value| text(name, value))?;
    match values.next() {
        None => Ok(first),
        Some(_) => Err(Failure::bad_request(format!(
            "expected one {name} header, found several; send one value for each request"
        ))),
    }
}

/// The values of a header that may be given several times.
fn all(headers: &HeaderMap, name: &str) -> Result<Vec<String>, Failure> {
    let values = headers.get_all(name).iter();
    values.map(|value| text(name, value).map(str::to_owned)).collect()
}

fn text<'h>(name: &str, value: &'h HeaderValue) -> Result<&'h str, Failure> {
    str::from_utf8(value.as_bytes()).map_err(|_| {
        Failure::bad_request(format!(
            "expected UTF-8 in the header {name}, found other bytes; send the name in UTF-8"
        ))
    })
}

/// Namespace and name of the ServiceAccount that a user name stands for. A name that no ServiceAccount can have is a
/// user's (upstream's `serviceaccount.SplitUsername`).
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let is_valid = dns_label(namespace).is_empty() && dns_subdomain(name).is_empty();
    is_valid.then_some((namespace, name))
}

#[cfg(test)]
mod tests;
