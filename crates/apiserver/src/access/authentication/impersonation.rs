//! Impersonation: `Impersonate-*` headers of users who may act as others.

use std::sync::Arc;

use api::names::{dns_label, dns_subdomain};
use api::rbac::Action;
use http::{HeaderMap, HeaderValue};

use super::identity::{ANONYMOUS, UNAUTHENTICATED};
use super::{AUTHENTICATED, Identity, SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNTS};
use crate::access::authorization::{Attributes, Authorizer};
use crate::failure::Failure;

/// Headers, in the lower case of HTTP/2.
const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// Returns the identity in whose name a request is made: the requester, or the impersonated user if authorization
/// permits it.
pub(crate) fn impersonate(
    requester: Arc<Identity>,
    headers: &HeaderMap,
    authorizer: &Authorizer,
) -> Result<Arc<Identity>, Failure> {
    let requested = RequestedIdentity::read(headers)?;
    if requested.user.is_empty() {
        if requested.groups.is_empty() && requested.uid.is_empty() && requested.extra.is_empty() {
            return Ok(requester);
        }
        let message = format!(
            "requested uid {:?}, groups {:?} and extra {:?} without impersonating a user name",
            requested.uid, requested.groups, requested.extra
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
    match service_account(requested.user) {
        Some((namespace, name)) => check("", "serviceaccounts", "", namespace, name)?,
        None => check("", "users", "", "", requested.user)?,
    }
    for group in &requested.groups {
        check("", "groups", "", "", group)?;
    }
    if !requested.uid.is_empty() {
        check("authentication.k8s.io", "uids", "", "", requested.uid)?;
    }
    for (key, values) in &requested.extra {
        for value in values {
            check("authentication.k8s.io", "userextras", key, "", value)?;
        }
    }
    Ok(Arc::new(requested.identity()))
}

/// Identity that the headers request.
struct RequestedIdentity<'h> {
    user: &'h str,
    uid: &'h str,
    groups: Vec<String>,
    extra: Vec<(String, Vec<String>)>,
}

impl<'h> RequestedIdentity<'h> {
    /// Reads the headers. A header that is not UTF-8 is an error: dropping it would change the rights of the request.
    fn read(headers: &'h HeaderMap) -> Result<RequestedIdentity<'h>, Failure> {
        let mut extra = Vec::new();
        for name in headers.keys() {
            if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
                let key = crate::request::query::decode_segment(key).into_owned();
                extra.push((key, all(headers, name.as_str())?));
            }
        }
        Ok(RequestedIdentity {
            user: single_header(headers, USER)?,
            uid: single_header(headers, UID)?,
            groups: all(headers, GROUP)?,
            extra,
        })
    }

    /// Returns the identity with its implied groups: those of a ServiceAccount, and `system:authenticated` or
    /// `system:unauthenticated` (upstream's `endpoints/filters/impersonation/mode.go`).
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
            certificate: None,
        }
    }
}

/// Returns the value of a header that occurs at most once; "" if it is absent.
fn single_header<'h>(headers: &'h HeaderMap, name: &str) -> Result<&'h str, Failure> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map_or(Ok(""), |value| text(name, value))?;
    match values.next() {
        None => Ok(first),
        Some(_) => Err(Failure::bad_request(format!(
            "expected one {name} header, found several; send one value for each request"
        ))),
    }
}

/// Returns the values of a header that may occur several times.
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

/// Splits the user name of a ServiceAccount into namespace and name. A name that no ServiceAccount can have is a user
/// name (upstream's `serviceaccount.SplitUsername`).
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let is_valid = dns_label(namespace).is_empty() && dns_subdomain(name).is_empty();
    is_valid.then_some((namespace, name))
}

#[cfg(test)]
mod tests;
