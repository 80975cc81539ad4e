//! The Service that the command names.

use api::object::ObjectKey;
use clap::{Args, ValueEnum};
use explain::Scope;

use crate::error::UsageError;

/// Flags that name an object.
#[derive(Debug, Args)]
pub(crate) struct ScopeFlags {
    /// Kind of the object [default: all Services]
    #[arg(value_name = "KIND", requires = "name")]
    pub kind: Option<SubjectKind>,
    /// Namespace and name of the Service; the default namespace is `default`
    #[arg(value_name = "NAMESPACE/NAME", requires = "kind")]
    pub name: Option<String>,
}

/// Kind of the named object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SubjectKind {
    /// One Service
    #[value(aliases = ["svc", "services"])]
    Service,
}

impl ScopeFlags {
    /// Parses `NAMESPACE/NAME`; without a name, all Services are examined.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the name has another form.
    pub(crate) fn parse(&self) -> Result<Scope, UsageError> {
        let Some(name) = self.name.as_deref() else {
            return Ok(Scope::All);
        };
        let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err(UsageError::new(
                "the Service must have the form NAMESPACE/NAME, for example shop/web",
            ));
        }
        Ok(Scope::Service {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// Returns the key of the Service of a scope; `None` for all Services.
pub(crate) fn service(scope: &Scope) -> Option<ObjectKey> {
    match scope {
        Scope::All => None,
        Scope::Service { namespace, name } => Some(ObjectKey::new(namespace, name)),
    }
}
