//! `portolan manifests`: the objects that install components in a Kubernetes cluster, as YAML.
//!
//! Each component has a module that returns its objects. `settings` validates the `flags`, `component` has the objects
//! that several components share, and `takeover` describes the steps of a takeover.

mod balancer;
mod component;
mod controllers;
mod dns;
mod flags;
mod multicluster;
mod proxy;
mod server;
mod settings;
mod takeover;

use std::process::ExitCode;

use serde_json::Value;

use self::flags::Part;
use self::settings::Settings;
use crate::error::CommandError;
use crate::output;

pub(crate) use self::flags::Flags;

/// Prints the manifests.
///
/// # Errors
///
/// [`UsageError`](crate::error::UsageError) if flags contradict each other or the address of the API server is missing.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, CommandError> {
    let settings = Settings::of(flags)?;
    output::print(&render(&settings)?);
    Ok(ExitCode::SUCCESS)
}

/// Returns the objects of the selected parts, in the order in which to apply them.
fn objects(settings: &Settings) -> Result<Vec<Value>, CommandError> {
    let mut objects = settings.namespace_object();
    if let Some(server) = &settings.server {
        objects.push(server::config_map(&settings.namespace, server));
    }
    for part in &settings.parts {
        objects.extend(match part {
            Part::Proxy => proxy::objects(settings),
            Part::Dns => dns::objects(settings),
            Part::NodeLocalDns => dns::node_local_objects(settings),
            Part::Controllers => controllers::objects(settings),
            Part::Balancer => balancer::objects(settings)?,
            Part::Pool => balancer::pool(settings),
            Part::Multicluster => match &settings.set {
                Some(set) => multicluster::objects(settings, set)?,
                None => Vec::new(),
            },
            Part::All => Vec::new(),
        });
    }
    Ok(objects)
}

/// Returns the steps of a takeover as comments, and the objects as YAML documents.
fn render(settings: &Settings) -> Result<String, CommandError> {
    let mut text = takeover::comments(&settings.takeover_from, &settings.namespace);
    for object in objects(settings)? {
        text.push_str("---\n");
        text.push_str(&serde_saphyr::to_string(&object)?);
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
