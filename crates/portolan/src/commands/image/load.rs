//! `portolan image load`: reads images from archives and directories.

use std::path::PathBuf;

use clap::Args;
use images::{LoadSource, Reference, StoreSettings};

use super::{StoreFlags, print_stored};
use crate::error::CommandError;
use crate::output::Format;

/// Name of standard input.
const STANDARD_INPUT: &str = "-";

/// Flags of `portolan image load`.
#[derive(Debug, Args)]
pub(crate) struct Flags {
    /// Archive, with or without compression, or OCI layout directory; - for standard input
    #[arg(value_name = "FILE|DIR|-")]
    source: PathBuf,
    /// Name of the image, in place of those in the archive; for archives with one image
    #[arg(long, value_name = "NAME")]
    name: Option<Reference>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    store: StoreFlags,
}

/// Loads all images of an archive.
///
/// # Errors
///
/// An error if the archive is invalid, or the store fails.
pub(super) fn run(flags: &Flags) -> Result<(), CommandError> {
    let mut source = if flags.source.as_os_str() == STANDARD_INPUT {
        LoadSource::stream(std::io::stdin())
    } else {
        LoadSource::path(&flags.source)
    };
    if let Some(name) = &flags.name {
        source = source.named(name.clone());
    }
    let images = flags.store.open(StoreSettings::default())?.load(source)?;
    print_stored(&images, flags.output, "loaded");
    Ok(())
}
