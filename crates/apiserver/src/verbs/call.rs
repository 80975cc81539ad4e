//! Execution of one verb on its target, from the options to the response.

use std::sync::Arc;

use api::kind::Kind;
use http::{HeaderMap, StatusCode};
use store::Revision;

use crate::access::audit::{AuditContext, Recorder};
use crate::access::authentication::Identity;
use crate::failure::Failure;
use crate::request::negotiation::{
    Accept, Encoding, Form, PatchForm, Representation, body_format, options_format, patch_form,
};
use crate::request::query::{DeleteOptions, ListOptions, Query, VersionMatch, WriteOptions};
use crate::request::route::Target;
use crate::request::verb::Verb;
use crate::transport::request_body::RequestBody;
use crate::transport::response::{self, ApiResponse, ResponsePermit};
use crate::verbs::page::Page;
use crate::verbs::printing::{self, IncludeObject};
use crate::verbs::proxy::resource_metrics::{self, UsageReports};
use crate::verbs::resource::{Outcome, Resources, deletion_warnings, scale_response};

/// Verb with its target, options and body. The values are owned, because a write can end after its connection.
pub(crate) struct Call {
    /// Object or collection.
    pub(crate) target: Target,
    /// Verb to perform.
    pub(crate) verb: Verb,
    /// Headers of the request.
    pub(crate) headers: HeaderMap,
    /// Query of the request.
    pub(crate) query: Query,
    /// Forms that the client accepts.
    pub(crate) accept: Accept,
    /// Body; empty for reads.
    pub(crate) body: RequestBody,
    /// User in whose name the request is made.
    pub(crate) requester: Arc<Identity>,
    /// Audit context of the request; `None` without an audit log.
    pub(crate) audit_context: Option<Arc<AuditContext>>,
}

impl Call {
    /// Executes a get.
    ///
    /// # Errors
    /// Invalid options, an absent object, or a failure of the store.
    pub(crate) async fn get(&self, resources: &Resources) -> Result<ApiResponse, Failure> {
        let (target, kind) = (&self.target, self.target.sent_kind());
        let form = self.form(kind)?;
        if self.query.flag("export") == Some(true) {
            return Err(Failure::bad_request(
                "the export parameter, deprecated since v1.14, is no longer supported",
            ));
        }
        let bytes = resources.get(target, &self.query).await?;
        let bytes = scale_response(bytes, target)?;
        let bytes = printing::object(kind, bytes, form, self.include(form)?)?;
        Ok(response::object(StatusCode::OK, bytes, form.encoding))
    }

    /// Executes a list. `memory` is the permit for the encoding.
    ///
    /// # Errors
    /// Invalid options, no memory for the encoding, or a failure of the store.
    pub(crate) async fn list(
        &self,
        resources: &Resources,
        mut memory: ResponsePermit,
    ) -> Result<ApiResponse, Failure> {
        let kind = self.target.sent_kind();
        let form = self.form(kind)?;
        let options = ListOptions::read(&self.query)?;
        let page = resources.list(&self.target, &options).await?;
        reserve_encoding(Some(&mut memory), kind, &page, form)?;
        let pieces = printing::page(kind, page, form, self.include(form)?)?;
        Ok(response::pieces(pieces, form.encoding))
    }

    /// Begins a watch. `memory` is the permit for the objects that exist.
    ///
    /// # Errors
    /// Invalid options, no memory for the objects that exist, or a failure of the store.
    pub(crate) async fn watch(
        &self,
        resources: &Resources,
        memory: ResponsePermit,
    ) -> Result<ApiResponse, Failure> {
        let form = self.accept.stream_form(self.target.sent_kind())?;
        let options = ListOptions {
            watch: true,
            ..ListOptions::read(&self.query)?
        };
        let include = self.include(form)?;
        let lines = resources
            .watch(&self.target, &options, form, include, memory)
            .await?;
        Ok(response::stream(lines, form.encoding))
    }

    /// Returns the length of the selectors of a list or watch.
    pub(crate) fn selector_bytes(&self) -> usize {
        self.query.text("labelSelector").len() + self.query.text("fieldSelector").len()
    }

    /// Executes a read of measurements.
    ///
    /// # Errors
    /// Invalid selectors, an object that is absent or not measured, or a failure of the store.
    pub(crate) async fn read_measured(
        &self,
        resources: &Resources,
        reports: &UsageReports,
    ) -> Result<ApiResponse, Failure> {
        let kind = self.target.kind;
        let form = self.form(kind)?;
        if self.verb == Verb::List {
            let page = resource_metrics::list(resources, &self.target, &self.query, reports).await?;
            let pieces = printing::page(kind, page, form, self.include(form)?)?;
            return Ok(response::pieces(pieces, form.encoding));
        }
        let bytes = resource_metrics::get(resources, &self.target, reports).await?;
        let bytes = printing::object(kind, bytes, form, self.include(form)?)?;
        Ok(response::object(StatusCode::OK, bytes, form.encoding))
    }

    /// Executes a write. `memory` is the permit for the encoding of a deleted collection.
    ///
    /// # Errors
    /// Invalid options or body, a refusal by admission or validation, a conflict, no memory for the encoding, or a failure
    /// of the store.
    pub(crate) async fn write(
        &self,
        resources: &Resources,
        memory: Option<ResponsePermit>,
    ) -> Result<ApiResponse, Failure> {
        let (target, headers, body) = (&self.target, &self.headers, self.body.bytes());
        // Before the write: a client that receives an error assumes that nothing was written.
        let form = self.form(target.kind)?;
        if self.verb == Verb::DeleteCollection {
            printing::ensure_list(target.kind, form)?;
        } else {
            printing::ensure_object(target.kind, form)?;
        }
        let outcome = match self.verb {
            Verb::Create => {
                let options = self.write_options("CreateOptions")?;
                resources
                    .create(target, body, body_format(headers)?, options)
                    .await?
            }
            Verb::Update => {
                let options = self.write_options("UpdateOptions")?;
                resources
                    .update(target, body, body_format(headers)?, options)
                    .await?
            }
            Verb::Patch => self.patch(resources).await?,
            Verb::Delete => {
                let options = DeleteOptions::read(&self.query, body, options_format(headers, body)?)?;
                let index = resources.store.index();
                resources.admission.admit_delete(index, target, &self.requester)?;
                if !options.dry_run {
                    resources.count_deletion(target, &self.requester)?;
                }
                resources.delete(target, &options).await?
            }
            _ => return self.delete_collection(resources, form, memory).await,
        };
        self.respond(outcome, form)
    }

    async fn patch(&self, resources: &Resources) -> Result<Outcome, Failure> {
        let (target, body) = (&self.target, self.body.bytes());
        let form = patch_form(&self.headers)?;
        let options = WriteOptions::read_patch(&self.query, &self.headers, form == PatchForm::Apply)?
            .by(&self.requester, self.recorder());
        match form {
            PatchForm::Patch(format) => resources.patch(target, body, format, options).await,
            PatchForm::Apply => resources.apply(target, body, options).await,
        }
    }

    async fn delete_collection(
        &self,
        resources: &Resources,
        form: Form,
        mut memory: Option<ResponsePermit>,
    ) -> Result<ApiResponse, Failure> {
        let body = self.body.bytes();
        let format = options_format(&self.headers, body)?;
        let options = DeleteOptions::read(&self.query, body, format)?;
        let mut selection = ListOptions::read(&self.query)?;
        // As upstream, which lists pages of a collection: a version without a rule is exact.
        if selection.version.is_some_and(|version| version != Revision(0)) {
            selection.version_match = selection.version_match.or(Some(VersionMatch::Exact));
        }
        let kind = self.target.kind;
        let reserve = |page: &Page| reserve_encoding(memory.as_mut(), kind, page, form);
        let requester = Some(&*self.requester);
        let page = resources
            .delete_collection(&self.target, &options, &selection, requester, reserve)
            .await?;
        let pieces = printing::page(self.target.kind, page, form, self.include(form)?)?;
        Ok(response::with_warnings(
            response::pieces(pieces, form.encoding),
            &deletion_warnings(&self.target, &options),
        ))
    }

    fn respond(&self, outcome: Outcome, form: Form) -> Result<ApiResponse, Failure> {
        let bytes = if !outcome.is_status {
            let object = scale_response(outcome.object, &self.target)?;
            printing::object(self.target.sent_kind(), object, form, self.include(form)?)?
        } else if form.encoding == Encoding::Json {
            outcome.object
        } else {
            printing::status(&outcome.object, form.encoding)?
        };
        Ok(response::with_warnings(
            response::object(outcome.code, bytes, form.encoding),
            &outcome.warnings,
        ))
    }

    /// Returns the form of a response about objects of a kind.
    fn form(&self, kind: &api::kind::Kind) -> Result<Form, Failure> {
        self.accept.form(&self.headers, &self.query, kind)
    }

    /// Returns the parts of objects that the rows of a table carry.
    fn include(&self, form: Form) -> Result<IncludeObject, Failure> {
        match form.representation {
            Representation::Table => IncludeObject::parse(self.query.text("includeObject")),
            _ => Ok(IncludeObject::Metadata),
        }
    }

    /// Returns the options of a create or an update; `options_kind` names them in errors.
    fn write_options(&self, options_kind: &str) -> Result<WriteOptions<'_>, Failure> {
        let options = WriteOptions::read(&self.query, &self.headers, options_kind)?;
        Ok(options.by(&self.requester, self.recorder()))
    }

    fn recorder(&self) -> Recorder<'_> {
        Recorder::new(self.audit_context.as_deref())
    }
}

/// Reserves the memory for the encoding of a list.
fn reserve_encoding(
    memory: Option<&mut ResponsePermit>,
    kind: &Kind,
    page: &Page,
    form: Form,
) -> Result<(), Failure> {
    let Some(memory) = memory else {
        return Ok(());
    };
    let bytes = printing::encoding_bytes(kind, page, form, memory.is_exempt())?;
    memory.reserve(bytes, false)
}
