//! What stands before every request: who asks, whether they ask too much, and whether they may.

use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, Method};
use tokio::sync::SemaphorePermit;

use crate::authentication::{Authenticator, Identity, impersonated};
use crate::authorization::{Attributes, Authorizer, selected_name, verb};
use crate::failure::Failure;
use crate::flow_control::{FlowControl, Load};
use crate::query::Query;
use crate::route::{Route, Target};

/// Lets requests through.
pub(crate) struct Gate {
    pub(crate) authenticator: Arc<Authenticator>,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) flow_control: FlowControl,
    /// Whether requests that prove no identity are decided about, too.
    pub(crate) allows_anonymous: bool,
}

/// What of a request counts here.
pub(crate) struct Asking<'r> {
    pub(crate) route: &'r Route<'r>,
    pub(crate) method: &'r Method,
    pub(crate) path: &'r str,
    pub(crate) query: &'r str,
    pub(crate) headers: &'r HeaderMap,
}

/// Somebody who was let through.
pub(crate) struct Passage<'g> {
    pub(crate) requester: Arc<Identity>,
    /// A place among those that are served at a time, as long as this is held.
    _place: Option<SemaphorePermit<'g>>,
}

impl Gate {
    /// Lets a request through, or says why not.
    pub(crate) fn pass(
        &self,
        asking: &Asking<'_>,
        connection: Option<&Arc<Identity>>,
    ) -> Result<Passage<'_>, Failure> {
        let requester = self.authenticator.authenticate(asking.headers, connection)?;
        let is_health = matches!(asking.route, Route::Health | Route::Version);
        if requester.is_anonymous() && !self.decides_about_anonymous() {
            // Whoever watches over the server has no credentials.
            if is_health {
                return Ok(Passage {
                    requester,
                    _place: None,
                });
            }
            return Err(Failure::unauthorized());
        }
        let requester = impersonated(requester, asking.headers, &self.authorizer)?;
        let place = match is_health {
            true => None,
            false => self
                .flow_control
                .enter(&requester, asking.load(), Instant::now())?,
        };
        self.authorize(asking, &requester)?;
        Ok(Passage {
            requester,
            _place: place,
        })
    }

    /// Where everybody may do everything, that is meant for those who have proved who they are.
    fn decides_about_anonymous(&self) -> bool {
        self.allows_anonymous && !self.authorizer.allows_everything()
    }

    fn authorize(&self, asking: &Asking<'_>, requester: &Identity) -> Result<(), Failure> {
        if let Route::Resource(target) = asking.route {
            let query = Query::parse(asking.query);
            let selected = selected_name(&query, target.kind);
            let verb = asking.verb(target);
            let attributes = Attributes::of_target(requester, target, verb, selected.as_deref());
            return self.authorizer.check(&attributes);
        }
        let method = asking.method.as_str().to_ascii_lowercase();
        let attributes = Attributes::of_path(requester, asking.path, asking.method, &method);
        self.authorizer.check(&attributes)
    }
}

impl Asking<'_> {
    fn verb(&self, target: &Target) -> &'static str {
        let is_watch = Query::parse(self.query).flag("watch") == Some(true);
        verb(self.method, target.name.is_some(), is_watch, target.is_watch_path)
    }

    fn load(&self) -> Load {
        let Route::Resource(target) = self.route else {
            return Load::Read;
        };
        match self.verb(target) {
            "watch" => Load::Watch,
            "get" | "list" => Load::Read,
            _ => Load::Write,
        }
    }
}
