//! `portolan chart -o`: drawings of Services.

use std::process::ExitCode;

use api::object::ObjectKey;
use chart::drawing::picture::{Selection, picture};
use chart::feed::KINDS_OF_USERS;
use chart::view::offline::model_of;
use explain::Scope;
use jiff::Timestamp;

use super::{Flags, Format};
use crate::commands::doctor::source::Source;
use crate::error::CommandError;
use crate::{output, runtime};

/// Prints a drawing.
///
/// # Errors
///
/// An error if the objects cannot be read, or the input has no selected Service.
pub(super) fn run(flags: &Flags, format: Format) -> Result<ExitCode, CommandError> {
    let drawing = &flags.drawing;
    let selection = match (drawing.scope.parse()?, &drawing.namespace) {
        (Scope::Service { namespace, name }, _) => Selection::Service(ObjectKey::new(&namespace, &name)),
        (Scope::All, Some(namespace)) => Selection::Namespace(namespace.clone()),
        (Scope::All, None) => Selection::All,
    };
    let (source, found_name, time) = if drawing.from_file.is_empty() {
        let client = flags.administrator.client()?;
        let source = runtime::multi_thread(1)?.block_on(Source::of_kinds(&client, KINDS_OF_USERS))?;
        (source, client.server().to_owned(), Some(Timestamp::now()))
    } else {
        let names: Vec<String> = drawing
            .from_file
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        (Source::from_files(&drawing.from_file)?, names.join(", "), None)
    };
    for problem in source.problems(None) {
        eprintln!("portolan: warning: {problem}");
    }
    let name = flags.page.cluster_name.as_deref().unwrap_or(&found_name);
    let (model, unreadable) = model_of(&source.builder.build(), name);
    if unreadable > 0 {
        eprintln!(
            "portolan: warning: {unreadable} objects have fields of unexpected types and are not drawn"
        );
    }
    let picture = picture(&model, &selection, time);
    if picture.services.is_empty() && selection != Selection::All {
        return Err("the cluster has no Service that the command selects".into());
    }
    output::print(&match format {
        Format::Svg => chart::drawing::svg(&picture),
        Format::Dot => chart::drawing::dot(&picture),
        Format::Mermaid => chart::drawing::mermaid(&picture),
    });
    Ok(ExitCode::SUCCESS)
}
