//! One verb on its target, with all it needs of the request.

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};

use crate::access::audit::{AuditContext, Recorder};
use crate::access::authentication::Identity;
use crate::failure::Failure;
use crate::request::negotiation::{self, Encoding, Form, PatchForm, body_format, patch_form};
use crate::request::query::{DeleteOptions, ListOptions, Query, WriteOptions};
use crate::request::route::Target;
use crate::transport::request_body::RequestBody;
use crate::transport::response::{self, ApiResponse};
use crate::verbs::printing::{self, IncludeObject};
use crate::verbs::resource::{Outcome, Resources, scale_response};

/// What a verb needs of a request; owned, as writes outlive their connection.
pub(crate) struct Call {
    /// What it is about.
    pub(crate) target: Target,
    /// What is done with it.
    pub(crate) verb: Verb,
    /// The request's headers.
    pub(crate) headers: HeaderMap,
    /// The query, not yet decoded.
    pub(crate) query: String,
    /// The body; empty for reads.
    pub(crate) body: RequestBody,
    /// Who asks.
    pub(crate) requester: Arc<Identity>,
    /// Audit record of the request; `None` without an audit log.
    pub(crate) audit_context: Option<Arc<AuditContext>>,
}

/// What is done with a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// What a method means for a target; an error if discovery does not offer it.
    pub(crate) fn of(target: &Target, method: &Method, query: &str) -> Result<Verb, Failure> {
        let is_named = target.name.is_some();
        let is_watch = || target.is_watch_path || Query::parse(query).flag("watch") == Some(true);
        let verb = match (method.as_str(), is_named) {
            ("GET" | "HEAD", true) if target.is_watch_path => Verb::Watch,
            ("GET" | "HEAD", true) => Verb::Get,
            ("GET" | "HEAD", false) if is_watch() => Verb::Watch,
            ("GET" | "HEAD", false) => Verb::List,
            // Every method that is passed on is offered as a verb of its own.
            ("OPTIONS", true) if target.proxy_path.is_some() => Verb::Get,
            ("POST", true) if target.proxy_path.is_some() => Verb::Create,
            ("POST", false) => Verb::Create,
            ("POST", true) if target.subresource.is_some() => Verb::Create,
            ("PUT", true) => Verb::Update,
            ("PATCH", true) => Verb::Patch,
            ("DELETE", true) => Verb::Delete,
            ("DELETE", false) => Verb::DeleteCollection,
            _ => return Err(Failure::method_not_allowed()),
        };
        let offered = match target.subresource.and_then(|name| target.kind.subresource(name)) {
            Some(subresource) => subresource.verbs,
            None => target.kind.verbs,
        };
        // Across all namespaces there is only reading.
        let needs_namespace = matches!(verb, Verb::Create | Verb::DeleteCollection)
            && target.kind.namespaced
            && target.namespace.is_none();
        if !offered.contains(&verb.word()) || needs_namespace {
            return Err(Failure::method_not_allowed());
        }
        Ok(verb)
    }

    /// The label of metrics.
    pub(crate) fn label(self, target: &Target) -> &'static str {
        match self {
            _ if target.proxy_path.is_some() => "CONNECT",
            Verb::Get => "GET",
            Verb::List => "LIST",
            Verb::Watch => "WATCH",
            Verb::Create => "POST",
            Verb::Update => "PUT",
            Verb::Patch => "PATCH",
            Verb::Delete => "DELETE",
            Verb::DeleteCollection => "DELETECOLLECTION",
        }
    }

    /// Whether it changes nothing.
    pub(crate) fn is_read(self) -> bool {
        matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }

    /// The word of discovery.
    fn word(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }
}

impl Call {
    /// Answers a read.
    pub(crate) async fn read(&self, resources: &Resources) -> Result<ApiResponse, Failure> {
        let query = Query::parse(&self.query);
        let include = IncludeObject::parse(query.text("includeObject"));
        let kind = self.target.sent_kind();
        if self.verb == Verb::Watch {
            let form = negotiation::stream_form(&self.headers, kind)?;
            let options = ListOptions {
                watch: true,
                ..ListOptions::read(&query)?
            };
            let lines = resources.watch(&self.target, &options, form, include).await?;
            return Ok(response::stream(lines, form.encoding));
        }
        let form = negotiation::form(&self.headers, &query, kind)?;
        match self.verb {
            Verb::List => {
                let options = ListOptions::read(&query)?;
                let page = resources.list(&self.target, &options).await?;
                let pieces = printing::page(kind, page, form, include)?;
                Ok(response::pieces(pieces, form.encoding))
            }
            _ => {
                let bytes = resources.get(&self.target, &query).await?;
                let bytes = scale_response(bytes, &self.target)?;
                let bytes = printing::object(kind, bytes, form, include)?;
                Ok(response::object(StatusCode::OK, bytes, form.encoding))
            }
        }
    }

    /// Carries out a write.
    pub(crate) async fn write(&self, resources: &Resources) -> Result<ApiResponse, Failure> {
        let query = Query::parse(&self.query);
        let (target, headers, body) = (&self.target, &self.headers, self.body.bytes());
        // Found out before anything is written: a client that gets no answer takes the write for failed.
        let form = negotiation::form(headers, &query, target.kind)?;
        let outcome = match self.verb {
            Verb::Create => {
                let options = WriteOptions::read(&query, headers, "CreateOptions")?
                    .by(&self.requester, self.recorder());
                resources
                    .create(target, body, body_format(headers)?, options)
                    .await?
            }
            Verb::Update => {
                let options = WriteOptions::read(&query, headers, "UpdateOptions")?
                    .by(&self.requester, self.recorder());
                resources
                    .update(target, body, body_format(headers)?, options)
                    .await?
            }
            Verb::Patch => {
                let form = patch_form(headers)?;
                let options = WriteOptions::read_patch(&query, headers, form == PatchForm::Apply)?
                    .by(&self.requester, self.recorder());
                match form {
                    PatchForm::Patch(format) => resources.patch(target, body, format, options).await?,
                    PatchForm::Apply => resources.apply(target, body, options).await?,
                }
            }
            Verb::Delete => {
                let options = DeleteOptions::read(&query, body, body_format(headers)?)?;
                let index = resources.store.index();
                resources.admission.admit_delete(index, target, &self.requester)?;
                resources.delete(target, &options).await?
            }
            _ => return self.delete_collection(resources, &query).await,
        };
        self.answer_with(outcome, form, &query)
    }

    fn recorder(&self) -> Recorder<'_> {
        Recorder::new(self.audit_context.as_deref())
    }

    async fn delete_collection(
        &self,
        resources: &Resources,
        query: &Query<'_>,
    ) -> Result<ApiResponse, Failure> {
        let form = negotiation::form(&self.headers, query, self.target.kind)?;
        let options = DeleteOptions::read(query, self.body.bytes(), body_format(&self.headers)?)?;
        let selection = ListOptions::read(query)?;
        let page = resources
            .delete_collection(&self.target, &options, &selection, Some(&self.requester))
            .await?;
        let include = IncludeObject::parse(query.text("includeObject"));
        let pieces = printing::page(self.target.kind, page, form, include)?;
        Ok(response::pieces(pieces, form.encoding))
    }

    fn answer_with(&self, outcome: Outcome, form: Form, query: &Query<'_>) -> Result<ApiResponse, Failure> {
        let include = IncludeObject::parse(query.text("includeObject"));
        let bytes = match outcome.is_status {
            true if form.encoding == Encoding::Json => outcome.object,
            true => printing::status(&outcome.object, form.encoding)?,
            false => {
                let object = scale_response(outcome.object, &self.target)?;
                printing::object(self.target.sent_kind(), object, form, include)?
            }
        };
        Ok(response::with_warnings(
            response::object(outcome.code, bytes, form.encoding),
            &outcome.warnings,
        ))
    }
}
