//! What is looked at in a write besides its form and who makes it: rules that concern several objects, or that only
//! some users have to keep.
//!
//! The existence of the namespace is looked at in [`crate::namespace`], since it has to hold at the commit, too.

mod certificates;
mod escalation;
mod external_ips;
mod node_restriction;
mod service_account;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde_json::Value;
use store::Index;

use crate::authentication::Identity;
use crate::authorization::Authorizer;
use crate::failure::Failure;
use crate::route::Target;

/// A check that can be switched on and off, by upstream's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdmissionPlugin {
    /// Who decides about requests for certificates may `approve` for their signer.
    CertificateApproval,
    /// Who signs certificates may `sign` as that signer.
    CertificateSigning,
    /// No certificate for a client of the API makes its owner a member of `system:masters`.
    CertificateSubjectRestriction,
    /// Services may not have new external IPs.
    DenyServiceExternalIps,
    /// Nothing is made in Namespaces that do not exist or that end. Always on.
    NamespaceLifecycle,
    /// The agent of a node writes only about itself and its Pods.
    NodeRestriction,
    /// Pods have a ServiceAccount that exists.
    ServiceAccount,
}

impl AdmissionPlugin {
    const ALL: [AdmissionPlugin; 7] = [
        AdmissionPlugin::CertificateApproval,
        AdmissionPlugin::CertificateSigning,
        AdmissionPlugin::CertificateSubjectRestriction,
        AdmissionPlugin::DenyServiceExternalIps,
        AdmissionPlugin::NamespaceLifecycle,
        AdmissionPlugin::NodeRestriction,
        AdmissionPlugin::ServiceAccount,
    ];

    fn name(self) -> &'static str {
        match self {
            AdmissionPlugin::CertificateApproval => "CertificateApproval",
            AdmissionPlugin::CertificateSigning => "CertificateSigning",
            AdmissionPlugin::CertificateSubjectRestriction => "CertificateSubjectRestriction",
            AdmissionPlugin::DenyServiceExternalIps => "DenyServiceExternalIPs",
            AdmissionPlugin::NamespaceLifecycle => "NamespaceLifecycle",
            AdmissionPlugin::NodeRestriction => "NodeRestriction",
            AdmissionPlugin::ServiceAccount => "ServiceAccount",
        }
    }

    /// Those that are on by default.
    pub fn defaults() -> BTreeSet<AdmissionPlugin> {
        let mut plugins = BTreeSet::from(AdmissionPlugin::ALL);
        plugins.remove(&AdmissionPlugin::DenyServiceExternalIps);
        plugins
    }
}

impl fmt::Display for AdmissionPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AdmissionPlugin {
    type Err = String;

    fn from_str(text: &str) -> Result<AdmissionPlugin, String> {
        let found = AdmissionPlugin::ALL
            .into_iter()
            .find(|plugin| plugin.name() == text);
        found.ok_or_else(|| {
            let known = AdmissionPlugin::ALL.map(AdmissionPlugin::name).join(", ");
            format!("{text:?} is no admission plugin; there are {known}")
        })
    }
}

/// Admits writes.
pub(crate) struct Admission {
    plugins: BTreeSet<AdmissionPlugin>,
    pub(crate) authorizer: Arc<Authorizer>,
}

/// A write that is about to be made.
#[derive(Clone, Copy)]
pub(crate) struct Attempt<'a> {
    target: &'a Target,
    /// Nobody: the server does it of its own accord.
    requester: Option<&'a Identity>,
    /// The object as it is, if there is one.
    stored: Option<&'a Value>,
}

impl<'a> Attempt<'a> {
    /// A new object.
    pub(crate) fn create(target: &'a Target, requester: Option<&'a Identity>) -> Attempt<'a> {
        Attempt {
            target,
            requester,
            stored: None,
        }
    }

    /// A changed object.
    pub(crate) fn update(
        target: &'a Target,
        requester: Option<&'a Identity>,
        stored: &'a Value,
    ) -> Attempt<'a> {
        Attempt {
            target,
            requester,
            stored: Some(stored),
        }
    }

    /// Whether the object itself is written, not what is below it.
    fn is_main(&self) -> bool {
        self.target.subresource.is_none()
    }
}

impl Admission {
    pub(crate) fn new(plugins: BTreeSet<AdmissionPlugin>, authorizer: Arc<Authorizer>) -> Admission {
        Admission { plugins, authorizer }
    }

    /// Admits an object that is about to be written, and completes it.
    pub(crate) fn admit(
        &self,
        index: &Index,
        attempt: Attempt<'_>,
        object: &mut Value,
    ) -> Result<(), Failure> {
        match attempt.target.kind.kind {
            "Pod" if attempt.stored.is_none() && self.has(AdmissionPlugin::ServiceAccount) => {
                service_account::admit(index, attempt.target, object)?;
            }
            "Service" if attempt.is_main() && self.has(AdmissionPlugin::DenyServiceExternalIps) => {
                external_ips::admit(&attempt, object)?;
            }
            "Role" | "ClusterRole" | "RoleBinding" | "ClusterRoleBinding" => {
                escalation::admit(&self.authorizer, index, &attempt, object)?;
            }
            "CertificateSigningRequest" => certificates::admit(self, &attempt, object)?,
            _ => {}
        }
        if let Some(node) = self.restricted(attempt.requester) {
            node_restriction::admit(node, &attempt, object)?;
        }
        Ok(())
    }

    /// Admits a deletion.
    pub(crate) fn admit_delete(
        &self,
        index: &Index,
        target: &Target,
        requester: &Identity,
    ) -> Result<(), Failure> {
        match self.restricted(Some(requester)) {
            Some(node) => node_restriction::admit_delete(node, index, target),
            None => Ok(()),
        }
    }

    fn restricted<'i>(&self, requester: Option<&'i Identity>) -> Option<&'i str> {
        let node = requester?.node_name()?;
        self.has(AdmissionPlugin::NodeRestriction).then_some(node)
    }

    fn has(&self, plugin: AdmissionPlugin) -> bool {
        self.plugins.contains(&plugin)
    }
}
